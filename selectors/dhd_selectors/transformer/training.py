"""Fine-tuning: from the linear probe on, the upper layers and the head learn together until held-out problems say stop.

The state with the smallest error on the held-out problems is kept, and the probe counts as the first such state: a
fine-tuning that helps nobody is undone. Everything random comes from one seed and is written down with each
checkpoint, so a fit that was killed goes on as if it had not been.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from dhd_labels.errors import DhdError
from dhd_selectors.base import FloatArray, IntArray
from dhd_selectors.transformer.checkpoints import Checkpoint, Checkpoints
from dhd_selectors.transformer.encoder import Progress, Reader, Upper, by_length
from dhd_selectors.transformer.inputs import Tokens
from dhd_selectors.transformer.probe import Probe

_POOL_OF_BATCHES = 16
"""Batches are made of rows of about one length, from pools of this many random batches."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast to train.

    Attributes:
        epochs: most passes over the training rows.
        batch_size: rows a step.
        learning_rate: largest step size of the layers, reached after the warm-up, then falling linearly to 0.
        head_factor: how much larger that of the head is.
        warmup: share of the steps over which it rises.
        clip: largest norm of a gradient.
        weight_decay: of the layers.
        checks: how often an epoch the error on the held-out rows is measured.
        patience: stop after so many measurements without a smaller error.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    head_factor: float = 10.0
    warmup: float = 0.1
    clip: float = 1.0
    weight_decay: float = 0.01
    checks: int = 4
    patience: int = 4


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a fit: token ids, the columns of the probe (n_rows, n_columns), targets and weights (n_rows,)."""

    tokens: Sequence[Tokens]
    columns: FloatArray
    y: FloatArray
    weight: FloatArray

    def at(self, rows: IntArray) -> Rows:
        """Return some of the rows."""
        return Rows([self.tokens[r] for r in rows], self.columns[rows], self.y[rows], self.weight[rows])


class Net(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """The upper layers and the head, which begins as the probe.

    The columns of the probe stay as they are, except those of the last layer, which follow the training.
    """

    def __init__(self, reader: Reader, probe: Probe) -> None:
        super().__init__()
        self.upper = Upper(reader.encoder, reader.n_trained)
        width = reader.encoder.width
        self.last = slice(2 * width, 3 * width)
        for name in ("center", "scale"):
            self.register_buffer(name, torch.tensor(getattr(probe, name), dtype=torch.float32))
        self.head = nn.Linear(len(probe.coef), 1)
        self.head.weight.data[0] = torch.tensor(probe.coef, dtype=torch.float32)
        self.head.bias.data[0] = probe.offset

    def forward(self, entering: tuple[Tensor, Tensor, Tensor], columns: Tensor) -> Tensor:
        """Return (n_rows,) values from `Reader.entering` and the columns of the probe."""
        states, mask, mean = entering
        last = (mean @ self.upper(states, mask).float())[:, 0]
        full = torch.cat([columns[:, : self.last.start], last, columns[:, self.last.stop :]], dim=1)
        with torch.autocast(full.device.type, enabled=False):
            values: Tensor = self.head((full - self.center) / self.scale)[:, 0]
        return values

    def learned(self) -> dict[str, Tensor]:
        """Return copies of what training changes, by name."""
        return {name: value.detach().clone() for name, value in self.named_parameters() if value.requires_grad}

    def restore(self, values: dict[str, Tensor]) -> None:
        """Take values that `learned` gave."""
        own = {name: value for name, value in self.named_parameters() if value.requires_grad}
        if own.keys() != values.keys():
            raise DhdError("The saved layers must be those of the model, got others. Fit and save the selector again.")
        for name, value in own.items():
            value.data.copy_(values[name])


@dataclass(frozen=True, slots=True)
class Trained:
    """The best state, its step (0 is the probe), and the errors on the held-out rows by step."""

    values: dict[str, Tensor]
    best_step: int
    errors: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class _Progress:
    """Where a fit stands."""

    step: int
    best_step: int
    best: dict[str, Tensor]
    errors: tuple[tuple[int, float], ...]

    @property
    def best_error(self) -> float:
        return min(error for _, error in self.errors)


def fine_tune(
    net: Net,
    reader: Reader,
    train: Rows,
    held_out: Rows,
    schedule: Schedule,
    *,
    seed: int,
    kept: Checkpoints,
    progress: Progress,
) -> Trained:
    """Train in place and return the state that is best on the held-out rows.

    Args:
        net: begins as the probe; afterwards it holds the best state.
        reader: gives the states that enter the trained layers.
        train: rows that gradients come from.
        held_out: rows of other problems.
        schedule: how long and how fast.
        seed: of the order of the rows and of dropout.
        kept: where the fit is written down, and goes on from.
        progress: told (stage, done, total).
    """
    per_epoch = math.ceil(len(train.y) / schedule.batch_size)
    total = per_epoch * schedule.epochs
    every = max(1, math.ceil(per_epoch / schedule.checks))
    optimizer = _optimizer(net, schedule)
    devices = [reader.device] if reader.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        at = _resume(net, optimizer, kept) or _Progress(0, 0, net.learned(), ((0, error_of(net, reader, held_out)),))
        for step, rows in enumerate(_batches(train, schedule, seed), start=1):
            if step <= at.step:
                continue
            if _since_best(at) >= schedule.patience:
                break
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * _rate(step, total, schedule.warmup)
            _step(net, reader, train.at(rows), optimizer, schedule.clip)
            at = replace(at, step=step)
            if step % every == 0 or step == total:
                at = _checked(net, at, error_of(net, reader, held_out))
                kept.write(_checkpoint(net, optimizer, at))
            progress("fine-tuning, steps", step, total)
    net.restore(at.best)
    return Trained(at.best, at.best_step, at.errors)


def predict(net: Net, reader: Reader, rows: Rows, batch: int, progress: Progress) -> FloatArray:
    """Return (n_rows,) values."""
    net.eval()
    found, done = np.empty(len(rows.tokens)), 0
    for some in by_length(rows.tokens, np.arange(len(rows.tokens)), batch):
        part = rows.at(some)
        with torch.inference_mode(), reader.autocast():
            found[some] = net(reader.entering(part.tokens), _columns(part, reader)).cpu().double().numpy()
        done += len(some)
        progress("predicting", done, len(found))
    return found


def error_of(net: Net, reader: Reader, rows: Rows) -> float:
    """Return the weighted mean squared error."""
    values = predict(net, reader, rows, 64, lambda *_: None)
    return float(np.average((values - rows.y) ** 2, weights=rows.weight))


def _step(net: Net, reader: Reader, rows: Rows, optimizer: torch.optim.Optimizer, clip: float) -> None:
    net.train()
    y, weight = (torch.tensor(v, dtype=torch.float32, device=reader.device) for v in (rows.y, rows.weight))
    with reader.autocast():
        values = net(reader.entering(rows.tokens), _columns(rows, reader))
    loss = (weight * (values - y) ** 2).sum() / weight.sum()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_([p for p in net.parameters() if p.requires_grad], clip)
    optimizer.step()


def _columns(rows: Rows, reader: Reader) -> Tensor:
    return torch.tensor(rows.columns, dtype=torch.float32, device=reader.device)


def _optimizer(net: Net, schedule: Schedule) -> torch.optim.Optimizer:
    layers = [value for value in net.upper.parameters() if value.requires_grad]
    peak = schedule.learning_rate
    groups = [
        {"params": layers, "peak": peak, "lr": peak, "weight_decay": schedule.weight_decay},
        # The head's coefficients are those of standardised columns, about 1/30 of the layers' weights in size.
        {
            "params": list(net.head.parameters()),
            "peak": peak * schedule.head_factor / 30,
            "lr": peak,
            "weight_decay": 0.0,
        },
    ]
    return torch.optim.AdamW(groups)


def _rate(step: int, total: int, warmup: float) -> float:
    rising = max(1.0, warmup * total)
    return min(step / rising, (total + 1 - step) / max(1.0, total + 1 - rising))


def _batches(rows: Rows, schedule: Schedule, seed: int) -> Iterator[IntArray]:
    """Yield the batches of all epochs: random, of about one length each, the same for the same seed."""
    lengths = np.array([len(row.ids) for row in rows.tokens])
    for epoch in range(schedule.epochs):
        rng = np.random.default_rng((seed, epoch))
        order = rng.permutation(len(lengths))
        size = schedule.batch_size * _POOL_OF_BATCHES
        batches = [
            alike[start : start + schedule.batch_size]
            for first in range(0, len(order), size)
            for alike in [order[first : first + size][np.argsort(lengths[order[first : first + size]], kind="stable")]]
            for start in range(0, len(alike), schedule.batch_size)
        ]
        for number in rng.permutation(len(batches)):
            yield batches[number]


def _since_best(at: _Progress) -> int:
    return sum(step > at.best_step for step, _ in at.errors)


def _checked(net: Net, at: _Progress, error: float) -> _Progress:
    better = error < at.best_error
    return _Progress(
        at.step,
        at.step if better else at.best_step,
        net.learned() if better else at.best,
        (*at.errors, (at.step, error)),
    )


def _checkpoint(net: Net, optimizer: torch.optim.Optimizer, at: _Progress) -> Checkpoint:
    moments = {
        f"optimizer.{number}.{name}": torch.as_tensor(value)
        for number, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }
    tensors = {
        **{f"net.{name}": value for name, value in net.learned().items()},
        **{f"best.{name}": value for name, value in at.best.items()},
        **moments,
        "random": torch.get_rng_state(),
    }
    if torch.cuda.is_available() and next(net.parameters()).is_cuda:
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    return Checkpoint(tensors, {"step": at.step, "best_step": at.best_step, "errors": at.errors})


def _resume(net: Net, optimizer: torch.optim.Optimizer, kept: Checkpoints) -> _Progress | None:
    """Take up the fit where it was written down, or return None."""
    found = kept.read()
    if found is None:
        return None
    net.restore(_under("net.", found))
    state = optimizer.state_dict()
    state["state"] = {}
    for key, value in _under("optimizer.", found).items():
        number, name = key.split(".")
        state["state"].setdefault(int(number), {})[name] = value
    peaks = [group["peak"] for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, peak in zip(optimizer.param_groups, peaks, strict=True):
        group["peak"] = peak
    torch.set_rng_state(found.tensors["random"])
    if "random.cuda" in found.tensors:
        torch.cuda.set_rng_state(found.tensors["random.cuda"])
    device = next(net.parameters()).device
    best = {name: value.to(device) for name, value in _under("best.", found).items()}
    errors = tuple((int(step), float(error)) for step, error in found.facts["errors"])
    return _Progress(int(found.facts["step"]), int(found.facts["best_step"]), best, errors)


def _under(prefix: str, found: Checkpoint) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in found.tensors.items() if name.startswith(prefix)}
