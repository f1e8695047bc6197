"""A run directory: `run.yaml` (the resolved config and who answers) beside `store.sqlite`."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dhd_labels.config import RunConfig, validate_config
from dhd_labels.engines.base import EngineIdentity
from dhd_labels.errors import DhdError
from dhd_labels.protocol.prompts import load_grammar, load_prompt
from dhd_labels.replay.calls import model_mismatch
from dhd_labels.replay.store import FILE_NAME, Store

RUN_FILE = "run.yaml"
_MAY_CHANGE = re.compile(
    r"config\.plan\..*|engines\.\w+\.served_as"
    r"|config\.engines\..*\.(?:base_url|base_url_env|api_key_env|concurrency|grammar_style|timeout_s|max_tries|max_wait_s|tokenizer|served_as)"
)
"""Keys that do not change what is measured."""


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

    @property
    def models(self) -> dict[str, str]:
        """Model id of each bound role."""
        return {name: identity.model for name, identity in self.identities.items()}

    def asked_for(self, role: str) -> str:
        """Return the model id that goes out for a role; the probe asks the integrator."""
        return self.identities["integrator" if role == "probe" else role].model

    def open_store(self) -> Store:
        """Open the store of the run."""
        return Store.open_existing(self.store_path)


def resolve(config: RunConfig, identities: Mapping[str, EngineIdentity]) -> dict[str, Any]:
    """Return what `run.yaml` holds: the config with every default filled in, prompt digests, engine identities."""
    digests = {}
    for name in config.bound_roles:
        role = config.role(name)
        digests[name] = load_prompt(role.prompt).digest
        if role.grammar:
            digests[f"{name}_grammar"] = hashlib.sha256(load_grammar(role.grammar).encode()).hexdigest()
    return {
        "config": config.model_dump(mode="json"),
        "prompts": digests,
        "engines": {name: dataclasses.asdict(identities[name]) for name in config.bound_roles},
    }


def begin(path: Path, config: RunConfig, identities: Mapping[str, EngineIdentity]) -> RunDirectory:
    """Start a run in a directory, or go on with the run that is there.

    Where a model is served, how patiently it is asked and what a plan assumes may change between runs; what is measured
    may not.

    Raises:
        DhdError: the directory holds a run of another config; the differing keys are shown and nothing is changed.
    """
    wanted = resolve(config, identities)
    file = path / RUN_FILE
    if file.exists():
        differing = _differences(_flat(_up_to_date(_read(file), file)), _flat(wanted))
        if fixed := [item for item in differing if not _MAY_CHANGE.fullmatch(item[0])]:
            raise DhdError(
                f"The run directory {path} holds a run of another config. These keys differ:\n"
                + "\n".join(f"  - {key}: there {there!r}, now {now!r}" for key, there, now in fixed)
                + "\nUse the config of that run, or another --run-dir. Nothing was changed."
            )
    # Also when only the store is left: every call in it is checked against this config before it is used.
    text = yaml.safe_dump(wanted, sort_keys=False, allow_unicode=True)
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        write_atomically(file, text)
    return RunDirectory(path, config, dict(identities))


def _up_to_date(data: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return the content of a run file with the defaults of settings that are newer than the file."""
    config = validate_config(data.get("config") or {}, str(file))
    engines = {
        role: {"served_as": "", "settings": "", **identity} for role, identity in (data.get("engines") or {}).items()
    }
    return {**data, "config": config.model_dump(mode="json"), "engines": engines}


def check_models(directory: RunDirectory, store: Store) -> None:
    """Compare, role by role, the model that was asked with the models that answered.

    Raises:
        ModelMismatchError: a role was answered by another model than the declared one.
    """
    for role, models in store.answering_models().items():
        identity = directory.identities["integrator" if role == "probe" else role]
        for model in models:
            if model != identity.comes_back:
                raise model_mismatch(role, identity, model)


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
        config = validate_config(data["config"], str(file))
        identities = {name: EngineIdentity(**data["engines"][name]) for name in config.bound_roles}
    except (KeyError, TypeError) as error:
        raise DhdError(f"The file {file} is not a run file of dhd-labels: {error!r}") from None
    return RunDirectory(path, config, identities)


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
