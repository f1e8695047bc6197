"""Permission to train on rows whose licence does not allow it: given in words, or not at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from dhd_labels.errors import DhdError, did_you_mean
from training.data import LabelData


def parse_permissions(given: Iterable[str]) -> dict[str, str]:
    """Return benchmark -> reason from `BENCHMARK=REASON` texts.

    Raises:
        DhdError: a text is not of that form, its reason is not in words, or a benchmark is named twice.
    """
    found: dict[str, str] = {}
    for text in given:
        benchmark, equals, reason = (part.strip() for part in text.partition("="))
        if not equals or not benchmark:
            raise DhdError(f"An --allow-training-on must be BENCHMARK=REASON, got {text!r}.")
        if len([word for word in reason.split() if any(letter.isalpha() for letter in word)]) < 2:
            raise DhdError(
                f"The reason for training on {benchmark!r} must be given in words, got {reason!r}: say what "
                f'permits it, as in --allow-training-on {benchmark}="written permission of the authors".'
            )
        if benchmark in found:
            raise DhdError(f"An --allow-training-on must name each benchmark once, got {benchmark!r} twice.")
        found[benchmark] = reason
    return found


def with_permissions(data: LabelData, permissions: Mapping[str, str]) -> LabelData:
    """Return the data with the rows of these benchmarks open to training, and a note that says so.

    Raises:
        DhdError: the data hold no such benchmark.
    """
    names = data.pools["benchmark"].to_numpy()
    trainable, notes = data.trainable.copy(), list(data.notes)
    for benchmark, reason in permissions.items():
        own = (names == benchmark)[data.pool]
        if not own.any():
            known = sorted(set(names))
            raise DhdError(f"The labels hold no benchmark {benchmark!r}. {did_you_mean(benchmark, known)}")
        opened = int((own & ~trainable).sum())
        trainable |= own
        notes.append(
            f"{opened} messages of {benchmark} are trained on against `train_allowed`, by permission: {reason}"
        )
    return dataclasses.replace(data, trainable=np.asarray(trainable), notes=tuple(notes))
