"""Where a killed fit goes on: one safetensors file a fit, named by a digest of its data and settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Tensors by name, and what else is known of the fit as JSON."""

    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The file of one fit; nothing is kept without a folder."""

    folder: Path | None
    digest: str

    def write(self, checkpoint: Checkpoint) -> None:
        """Replace the file; a crash leaves the earlier one whole."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self._file.with_suffix(f".{os.getpid()}.tmp")
        facts = {"format": FORMAT, "digest": self.digest, **checkpoint.facts}
        tensors = {name: value.detach().cpu().contiguous() for name, value in checkpoint.tensors.items()}
        save_file(tensors, partial, metadata={"facts": json.dumps(facts)})
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(self._file)

    def read(self) -> Checkpoint | None:
        """Return what was kept of this fit; None when there is nothing, or nothing that can be read."""
        if self.folder is None or not self._file.exists():
            return None
        try:
            with safe_open(self._file, "pt") as file:
                facts = json.loads(file.metadata()["facts"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
        except (SafetensorError, OSError, KeyError, TypeError, ValueError):
            return None
        known = facts.get("format") == FORMAT and facts.get("digest") == self.digest
        return Checkpoint(tensors, facts) if known else None

    @property
    def _file(self) -> Path:
        assert self.folder is not None
        return self.folder / f"{self.digest}.safetensors"
