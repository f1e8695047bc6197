"""Planning the paper's whole campaign, against rendering every prompt of it."""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

from dhd_labels.config import RunConfig
from dhd_labels.protocol.roles import hypothesizer_calls, recruiter_call, replay_call
from dhd_labels.replay.estimate import _StandIn, plan_run
from dhd_labels.replay.plan import choose_studies, plan_replays
from dhd_labels.replay.problems import load_problems
from dhd_labels.report.table import Table
from tests.bench.campaign import campaign

SAMPLE = 60
"""Problems of each benchmark for which the alternative renders every prompt."""


def render_everything(config: RunConfig) -> int:
    """The alternative: every prompt of every call is rendered; return their characters."""
    problems, _ = load_problems(config)
    studies, size = choose_studies(config, problems), 0
    models = {"integrator": "a", "other_integrator": "b"}
    for problem in problems:
        stand_in, visible = _StandIn(config, problem), problem.visible()
        calls = [recruiter_call(config, visible), *hypothesizer_calls(config, visible, stand_in.roles)]
        planned = plan_replays(config, problem.problem_id, "", models, studies[problem.problem_id])
        calls += [replay_call(config, visible, stand_in.pool, replay) for replay in planned]
        size += sum(len(turn.content) for call in calls for turn in call.turns)
    return size


def _measured(folder: str, size: int | None, alternative: bool) -> tuple[int, float, float]:
    """Return problems, seconds and peak memory in GB of a process of its own."""
    config = campaign(Path(folder), size)
    start = time.perf_counter()
    problems = 5 * (size or 0) if alternative else plan_run(config).problems
    if alternative:
        render_everything(config)
    return problems, time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def planning() -> Table:
    """Return time and peak memory of a plan, and the ratio to the alternative on a sample of the same problems."""
    with (
        tempfile.TemporaryDirectory() as folder,
        multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as one,
    ):
        whole, sample, rendered = (
            one.apply(_measured, (folder, *what)) for what in ((None, False), (SAMPLE, False), (SAMPLE, True))
        )
    rows = (
        ("plan of paper-gemma, files read", f"{whole[0]:,}", f"{whole[1]:.1f}", f"{whole[2]:.2f}", "-"),
        (
            "plan of a sample",
            f"{sample[0]:,}",
            f"{sample[1]:.2f}",
            f"{sample[2]:.2f}",
            f"{sample[1] / rendered[1]:.2f}",
        ),
        ("every prompt of the sample rendered", f"{rendered[0]:,}", f"{rendered[1]:.2f}", f"{rendered[2]:.2f}", "1.00"),
    )
    return Table("Planning a campaign", ("what", "problems", "seconds", "peak GB", "ratio"), rows)
