"""A run directory: `run.yaml` (the resolved config and who answers) beside `store.sqlite`."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dhd_labels.config import ROLE_NAMES, RunConfig, validate_config
from dhd_labels.engines.base import EngineIdentity
from dhd_labels.errors import DhdError
from dhd_labels.protocol.prompts import load_grammar, load_prompt
from dhd_labels.replay.store import FILE_NAME, Store

RUN_FILE = "run.yaml"


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """An existing run: its config, and the identity of the engine behind each role."""

    path: Path
    config: RunConfig
    identities: Mapping[str, EngineIdentity]

    @property
    def store_path(self) -> Path:
        """Where the calls are."""
        return self.path / FILE_NAME

    @property
    def integrator(self) -> str:
        """Model that replays."""
        return self.identities["integrator"].model

    def open_store(self) -> Store:
        """Open the store of the run."""
        return Store.open_existing(self.store_path)


def resolve(config: RunConfig, identities: Mapping[str, EngineIdentity]) -> dict[str, Any]:
    """Return what `run.yaml` holds: the config with every default filled in, prompt digests, engine identities."""
    digests = {}
    for name in ROLE_NAMES:
        role = config.role(name)
        digests[name] = load_prompt(role.prompt).digest
        if role.grammar:
            digests[f"{name}_grammar"] = hashlib.sha256(load_grammar(role.grammar).encode()).hexdigest()
    return {
        "config": config.model_dump(mode="json"),
        "prompts": digests,
        "engines": {name: dataclasses.asdict(identities[name]) for name in ROLE_NAMES},
    }


def begin(path: Path, config: RunConfig, identities: Mapping[str, EngineIdentity]) -> RunDirectory:
    """Start a run in a directory, or go on with the run that is there.

    Raises:
        DhdError: the directory holds a run of another config; the differing keys are shown and nothing is changed.
    """
    wanted = resolve(config, identities)
    file = path / RUN_FILE
    if file.exists():
        differing = _differences(_flat(_read(file)), _flat(wanted))
        if differing:
            raise DhdError(
                f"The run directory {path} holds a run of another config. These keys differ:\n"
                + "\n".join(f"  - {key}: there {there!r}, now {now!r}" for key, there, now in differing)
                + "\nUse the config of that run, or another --run-dir. Nothing was changed."
            )
    else:  # also when only the store is left: every call in it is checked against this config before it is used
        write_atomically(file, yaml.safe_dump(wanted, sort_keys=False, allow_unicode=True))
    return RunDirectory(path, config, dict(identities))


def open_run(path: Path) -> RunDirectory:
    """Open a run directory for reading.

    Raises:
        DhdError: there is no run in it.
    """
    file = path / RUN_FILE
    if not file.is_file():
        raise DhdError(f"There is no run in {str(path)!r} (no {RUN_FILE}): give the directory that `run` wrote to")
    data = _read(file)
    try:
        identities = {name: EngineIdentity(**data["engines"][name]) for name in ROLE_NAMES}
        config = data["config"]
    except (KeyError, TypeError) as error:
        raise DhdError(f"The file {file} is not a run file of dhd-labels: {error!r}") from None
    return RunDirectory(path, validate_config(config, str(file)), identities)


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a crash leaves either the old one or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        with part.open("w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        part.replace(path)
    except OSError as error:
        raise DhdError(f"The file {path} cannot be written: {error}") from None


def _read(file: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DhdError(f"The run file {file} cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise DhdError(f"The run file {file} must be a YAML mapping, got {type(data).__name__}")
    return data


def _flat(data: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(data, dict):
        return {prefix: data}
    found: dict[str, Any] = {}
    for key, value in data.items():
        found |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found


def _differences(there: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    missing = "(not set)"
    keys = sorted(there.keys() | now.keys())
    return [
        (k, there.get(k, missing), now.get(k, missing)) for k in keys if there.get(k, missing) != now.get(k, missing)
    ]
