"""A fitted selector with its policy and thresholds: what decides, is saved and is shared."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dhd_labels.errors import DhdError
from dhd_labels.records import POOL_SIZE
from dhd_selectors.actions import N_ACTIONS, slots_of
from dhd_selectors.base import Selector, is_privileged, predict_values, requires, selector_name, uses_text
from dhd_selectors.features import pool_features
from dhd_selectors.policy import NEVER, Thresholds, load_policy
from dhd_selectors.registry import is_shipped, selector_factory
from dhd_selectors.saving import manifest as manifests
from dhd_selectors.saving.facts import TrainingFacts
from dhd_selectors.saving.manifest import MANIFEST_NAME, REPORTS, SELECTOR_FOLDER
from dhd_selectors.saving.pool import Record, read_pool, text_frame
from dhd_selectors.saving.state import load_selector_of, save_selector

if TYPE_CHECKING:
    from dhd_selectors.saving.hub import PushedRule

CARD_NAME = "README.md"


@dataclass(frozen=True, slots=True)
class Decision:
    """Which slots to show, ascending, and the predicted value of each message by slot.

    Where the rule could not decide and all are kept, `values` is empty and `reason` says why; else `reason` is None.
    """

    kept: tuple[int, ...]
    values: dict[int, float]
    reason: str | None = None


@dataclass(frozen=True)
class DecisionRule:
    """Decides which messages of a pool to show.

    Attributes:
        name: how the selector was named, such as `lgbm` or `mine.py:Mine`.
        selector: fitted.
        policy: name of the policy.
        thresholds: what the policy tuned.
        training: where the rule comes from, or None when nobody said.
    """

    name: str
    selector: Selector
    policy: str
    thresholds: Thresholds
    training: TrainingFacts | None = None

    def keep(self, problem: Record, messages: Iterable[Record] | pd.DataFrame) -> list[int]:
        """Return the slots of the messages to show, ascending; an empty list shows none.

        Args:
            problem: a `Problem`, a dictionary or a frame's row with `answer_type`; `benchmark` and `question` if known.
            messages: the five messages: `Message` records, dictionaries with the data set's column names, or the rows
                of one pool. `docs/selectors.md` lists the fields. Fewer than five are all kept: no rule was measured
                on such pools.

        Raises:
            DhdError: a field is missing or of another kind, or the slots are not those of one pool.
        """
        return list(self.decide(problem, messages).kept)

    def decide(self, problem: Record, messages: Iterable[Record] | pd.DataFrame) -> Decision:
        """Return what `keep` returns, with the values behind it."""
        pool = read_pool(problem, messages)
        slots = np.array([message.slot for message in pool], dtype=np.int64)
        if len(pool) != POOL_SIZE:
            return Decision(tuple(slots.tolist()), {}, f"{len(pool)} messages, and rules are for {POOL_SIZE}: all kept")
        texts = text_frame(pool) if uses_text(self.selector) else None
        values = predict_values(self.selector, pool_features(pool), pd.DataFrame(index=range(POOL_SIZE)), texts)
        pools, recorded = np.zeros(POOL_SIZE, dtype=np.int64), np.ones((1, N_ACTIONS), dtype=np.bool_)
        action = load_policy(self.policy).choose(pools, slots, values, recorded, self.thresholds)
        return Decision(slots_of(int(action[0])), dict(zip(slots.tolist(), values.tolist(), strict=True)))

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the rule into a folder, all of it or nothing. A saved rule that is there already is replaced.

        Raises:
            DhdError: the rule cannot be used or saved (it is privileged, or holds what is no data), or the folder holds
                something else.
        """
        check_savable(self.selector)
        target = Path(folder).expanduser()
        check_target(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            self._write(partial)
            partial.chmod(0o777 & ~_umask())
            _put_in_place(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    @classmethod
    def from_pretrained(cls, source: str | Path, *, selector: str | type | None = None) -> DecisionRule:
        """Load a rule from a folder or from the Hub. No code in it is run.

        Args:
            source: a folder, or `org/name` or `org/name@revision` of the Hub. A folder of that name wins.
            selector: the class, or how `load_selector` names it, of a selector that is not built in and that no
                installed package offers.

        Raises:
            DhdError: there is no such rule, it is of another version, a file was changed, or its class is not here.
        """
        folder, manifest = _locate(source)
        chosen = _class_of(manifest, folder, selector)
        policy, thresholds, training = _decoded(manifest, folder)
        fitted = load_selector_of(chosen, folder / SELECTOR_FOLDER)
        return cls(manifest["selector"], fitted, policy, thresholds, training)

    def push_to_hub(self, repo: str, *, private: bool = True, revision: str | None = None) -> PushedRule:
        """Push the rule as a model repository, in one commit, and load it back to compare.

        Args:
            repo: `org/name`; made if it is not there.
            private: make it private; an existing public repository is then refused.
            revision: branch to commit to (made if it is not there); `main` by default.

        Raises:
            DhdError: as `save_pretrained`; no or a bad token, a refusal of the Hub, or what comes back differs.
        """
        from dhd_selectors.saving.hub import push_folder

        with tempfile.TemporaryDirectory() as place:
            self.save_pretrained(Path(place, "rule"))
            return push_folder(Path(place, "rule"), repo, private=private, revision=revision)

    def _write(self, folder: Path) -> None:
        from dhd_selectors.saving.card import render

        (folder / SELECTOR_FOLDER).mkdir()
        save_selector(self.selector, folder / SELECTOR_FOLDER)
        (folder / CARD_NAME).write_text(render(self), encoding="utf-8")
        fields = {
            "selector": self.name,
            "class": type(self.selector).__qualname__,
            "policy": self.policy,
            "thresholds": [t if math.isfinite(t) else None for t in self.thresholds],
            "training": None if self.training is None else self.training.as_json(),
        }
        manifests.write_manifest(folder, fields)


def check_savable(selector: Selector) -> None:
    """Refuse a selector that could not decide for a pool without verdicts.

    Raises:
        DhdError: it needs privileged columns when it decides.
    """
    if is_privileged(selector):
        columns = ", ".join(requires(selector, fitting=False))
        raise DhdError(
            f"{selector_name(selector)} needs {columns} when it decides, which nobody has for a new pool, so it cannot "
            "be saved. It is a comparator; save a selector that is not marked with *."
        )


def _locate(source: str | Path) -> tuple[Path, dict[str, Any]]:
    """Return the folder of a rule, with every file checked, and its manifest."""
    folder = Path(source).expanduser()
    if not folder.exists():
        from dhd_labels.dataset.hub import parse_ref
        from dhd_selectors.saving.hub import download

        ref = parse_ref(str(source))
        if ref is None:
            raise DhdError(f"There is no saved rule {str(source)!r}. {manifests.HOW_TO_MAKE}")
        return download(ref)
    if not (folder / MANIFEST_NAME).is_file():
        raise DhdError(f"{str(source)!r} holds no saved rule (no {MANIFEST_NAME}). {manifests.HOW_TO_MAKE}")
    manifest = manifests.read_manifest(folder / MANIFEST_NAME)
    manifests.check_files(folder, manifest)
    return folder, manifest


def _decoded(manifest: dict[str, Any], folder: Path) -> tuple[str, Thresholds, TrainingFacts | None]:
    """Return the policy, the thresholds and the training facts of a manifest."""
    try:
        thresholds = tuple(NEVER if t is None else float(t) for t in manifest["thresholds"])
        training = None if manifest["training"] is None else TrainingFacts.from_json(manifest["training"])
        needed = len(load_policy(manifest["policy"]).pinned(0.0))
    except (KeyError, TypeError, ValueError) as error:
        raise DhdError(
            f"The file {folder / MANIFEST_NAME} is not what this version writes ({type(error).__name__}: {error}). "
            f"{manifests.HOW_TO_GET}"
        ) from error
    if len(thresholds) != needed:
        raise DhdError(
            f"The 'thresholds' of {folder / MANIFEST_NAME} must be {needed} for {manifest['policy']}, got "
            f"{len(thresholds)}. {manifests.HOW_TO_GET}"
        )
    return manifest["policy"], thresholds, training


def _class_of(manifest: dict[str, Any], folder: Path, selector: str | type | None) -> type:
    """Return the class of a saved selector: one that is installed here, or the one that the caller names."""
    name = manifest["selector"]
    if selector is None and not is_shipped(name):
        raise DhdError(
            f"The rule in {folder} was made with {name!r}, which is no selector of an installed package, and code is "
            "never taken from a saved rule. Name the class: from_pretrained(..., selector='path.py:Class')."
        )
    found: Any = selector if isinstance(selector, type) else selector_factory(name if selector is None else selector)
    if not isinstance(found, type):
        raise DhdError(f"The selector {selector or name!r} must be a class to load a saved one, got {found!r}.")
    if found.__qualname__ != manifest["class"]:
        raise DhdError(
            f"The class of the rule in {folder} must be {manifest['class']!r}, got {found.__qualname__!r}. Name the "
            "one that was saved, or fit and save again."
        )
    return found


def check_target(target: Path) -> None:
    """Refuse a place where a rule would overwrite something else.

    Raises:
        DhdError: it is a file, or a folder with other files.
    """
    found = {path.name for path in target.iterdir()} if target.is_dir() else set()
    ours = {*REPORTS, *((MANIFEST_NAME, CARD_NAME, SELECTOR_FOLDER) if MANIFEST_NAME in found else ())}
    if found - ours:
        raise DhdError(
            f"The folder {target} must be new, empty or a saved rule, but it also holds {min(found - ours)}, which is "
            "not overwritten. Choose another folder."
        )
    if target.exists() and not target.is_dir():
        raise DhdError(f"A rule is saved as a folder, but {target} is a file. Choose another name.")


def _put_in_place(partial: Path, target: Path) -> None:
    if not target.exists():
        partial.rename(target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    target.rename(old / "old")
    try:
        partial.rename(target)
    except OSError:
        (old / "old").rename(target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
