"""The transformer selector on simulated worlds with known truth.

    python -m tests.bench.neural              calibration where no message matters, a small random encoder
    python -m tests.bench.neural --full       the same with MiniLM, and `wording` against lgbm, which reads no text
    python -m tests.bench.neural --only wording --problems 500

Calibration: the share of 95 % intervals of the gain over keep-all that leave out 0; the exit code is 1 when it is above
5 % + 3 standard errors. `wording`: the gain over keep-all and over lgbm, cross-fitted by problem and on the test split;
1 when no interval of the gain over lgbm is above 0.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dhd_labels.__main__ import main as dhd_labels
from dhd_selectors import load_selector
from dhd_selectors.actions import FULL
from dhd_selectors.base import Selector
from dhd_selectors.policy import load_policy
from dhd_selectors.transformer import TransformerSelector
from dhd_selectors.transformer.encoder import MINILM
from tests.neural.tiny import tiny_encoder
from training.compare import Comparison
from training.crossfit import Decisions
from training.data import load_data
from training.estimands import make_folds
from training.gain import Gain
from training.references import Reference, Study, judged, success_of_other

SPLITS = ("train", "validation", "test")
ESTIMAND = "unseen-problem"


@dataclass(frozen=True)
class Clock:
    """Seconds since it was made, of the wall and of all processors."""

    wall: float
    cpu: float

    @staticmethod
    def now() -> Clock:
        return Clock(time.perf_counter(), time.process_time())

    def told(self) -> str:
        return f"{time.perf_counter() - self.wall:.0f} s, {time.process_time() - self.cpu:.0f} CPU s"


def study(folder: Path, scenario: str, problems: int, seed: int, *, jobs: int, test: bool = False) -> Study:
    """Simulate a data set, unless it is there, and prepare its folds."""
    place = folder / f"{scenario}-{problems}-{seed}"
    if not place.exists():
        given = {"problems": problems, "blocks": 5, "seed": seed, "scenario": scenario, "out": place}
        with contextlib.redirect_stdout(io.StringIO()):
            code = dhd_labels(["simulate", *(text for k, v in given.items() for text in (f"--{k}", str(v)))])
        assert code == 0, code
    data = load_data(str(place), SPLITS, texts=True)
    return Study(load_policy("remove-worst"), data, [make_folds(data, ESTIMAND, (seed, 0), test=test)], seed, jobs)


def gain(of: Study, decisions: Decisions, other: Decisions | None = None) -> Gain:
    """Return the gain over keeping all, or over other decisions."""
    success = judged(of, decisions)[:, FULL] if other is None else success_of_other(of, decisions, other)
    reference = Reference("keep-all" if other is None else "lgbm", success, learned=other is not None)
    return Comparison(of, decisions, ESTIMAND, learned=True).gain(reference, 0, {})


def calibration(folder: Path, model: str, runs: int, problems: int, jobs: int, **parameters: int) -> bool:
    """Print how many intervals miss 0 where no message matters; return whether that is few enough."""
    clock, missed, trained, gains = Clock.now(), 0, 0, []
    for seed in range(runs):
        of = study(folder, "null", problems, seed, jobs=jobs)
        made = of.decide(TransformerSelector(model, random_state=seed, n_jobs=jobs, **parameters))
        found = gain(of, made)
        low, high, value = found.ci_low, found.ci_high, found.gain
        missed += low is not None and high is not None and not low <= 0 <= high
        fitted = [fit.selector for fit in made.fits if fit is not None]
        trained += sum(isinstance(one, TransformerSelector) and one.best_step_ > 0 for one in fitted)
        gains.append(0.0 if value is None else value)
    share, bound = missed / runs, 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
    error = np.std(gains, ddof=1) / math.sqrt(runs)
    print(
        f"null, {runs} x {problems} problems: {missed} intervals leave out 0 ({share:.3f}, at most {bound:.3f}); "
        f"mean gain {np.mean(gains):+.2f} +- {error:.2f} points; {trained} of {5 * runs} fits kept fine-tuned layers; "
        f"{clock.told()}",
        flush=True,
    )
    return share <= bound


def wording(folder: Path, problems: int, seed: int, jobs: int) -> bool:
    """Print the gains where the words alone tell; return whether one interval over lgbm is above 0."""
    better = False
    for test, epochs in ((False, 0), (True, 2)):
        clock, of = Clock.now(), study(folder, "wording", problems, seed, jobs=jobs, test=test)
        lgbm: Selector = load_selector("lgbm", random_state=seed, n_jobs=jobs)
        other = of.decide(lgbm)
        made = of.decide(TransformerSelector(epochs=epochs, random_state=seed, n_jobs=jobs))
        where = "test split, one fit" if test else "cross-fitted, five fits"
        for name, found in (
            ("transformer over keep-all", gain(of, made)),
            ("lgbm over keep-all", gain(of, other)),
            ("transformer over lgbm", gain(of, made, other)),
        ):
            low, high = found.ci_low or 0.0, found.ci_high or 0.0
            better |= name.endswith("lgbm") and low > 0
            print(f"wording, {where}, epochs={epochs}: {name} {found.gain:+.2f} [{low:+.2f}, {high:+.2f}]", flush=True)
        errors = [fit.selector.errors_ for fit in made.fits if fit is not None]  # type: ignore[attr-defined]
        print(f"  errors on held-out problems by step: {errors[0]}; {clock.told()}", flush=True)
    return better


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="also with MiniLM: 20 null worlds and `wording`")
    parser.add_argument("--only", choices=("tiny", "minilm", "wording"))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--problems", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--data", type=Path, help="keep the simulated data sets here")
    options = parser.parse_args()
    wanted = {options.only} if options.only else {"tiny", "minilm", "wording"} if options.full else {"tiny"}
    with tempfile.TemporaryDirectory() as made:
        folder = options.data or Path(made)
        good = []
        if "tiny" in wanted:
            tiny = tiny_encoder(Path(made, "tiny"))
            good.append(calibration(folder, tiny, options.runs, 40, options.jobs, epochs=2, learning_rate=1e-3))  # type: ignore[arg-type]
        if "minilm" in wanted:
            good.append(calibration(folder, MINILM, options.runs, 30, options.jobs, epochs=1, max_length=64))
        if "wording" in wanted:
            good.append(wording(folder, options.problems, options.seed, options.jobs))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
