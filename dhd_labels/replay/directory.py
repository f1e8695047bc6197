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
from dhd_labels.protocol.prompts import load_grammar, load_json_schema, load_prompt
from dhd_labels.records import content_id
from dhd_labels.replay.calls import NO_MODEL, ModelMismatchError
from dhd_labels.replay.store import FILE_NAME, Store

RUN_FILE = "run.yaml"
_PROBED = {"probe": "integrator", "other_probe": "other_integrator"}
"""Whom the calls of the start-up probe ask."""
_CONFIG = "config"
_MAY_CHANGE = re.compile(
    r"config\.(?:plan|probe|outcomes)\..*|config\.(?:grading_mode|protocol\.max_attempts)|engines\.\w+\.served_as"
    r"|config\.engines\..*\.(?:base_url|base_url_env|api_key_env|concurrency|grammar_style|timeout_s|max_tries|max_wait_s|tokenizer"
    r"|served_as|warm_up|latency_s|call_log)"
)
"""Keys that change no call: where and how patiently a model is asked, what a plan assumes, how answers are counted."""


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
        """Return the model id that goes out for a role."""
        return self.identities[_PROBED.get(role, role)].model

    def open_store(self) -> Store:
        """Open the store of the run.

        Raises:
            DhdError: there is none, it is damaged, or `run.yaml` is not the one that it was made with.
        """
        store = Store.open_existing(self.store_path)
        recorded = store.recall(_CONFIG)
        if recorded not in (None, self.digest):
            store.close()
            raise self._edited()
        return store

    @property
    def digest(self) -> str:
        """SHA-256 of what decides the calls of the run. Settings at their defaults leave no trace."""
        config = _flat(_without_cluster(self.config.model_dump(mode="json", exclude_defaults=True)), "config")
        fixed = {key: value for key, value in config.items() if not _MAY_CHANGE.fullmatch(key)}
        return content_id({"config": fixed, "engines": {name: i.for_key() for name, i in self.identities.items()}})

    def bind(self, store: Store) -> None:
        """Record in a store of this run what it is made with, or compare it with what is recorded.

        Raises:
            DhdError: the store was made with other settings than the run file states.
        """
        if store.remember(_CONFIG, self.digest) != self.digest:
            raise self._edited()

    def _edited(self) -> DhdError:
        return DhdError(
            f"The run file {self.path / RUN_FILE} must be the one that {FILE_NAME} was made with, but it was edited or "
            "exchanged: the stored answers were given under other settings. Restore it, or use a new --run-dir."
        )


def resolve(config: RunConfig, identities: Mapping[str, EngineIdentity]) -> dict[str, Any]:
    """Return what `run.yaml` holds: the config with every default filled in, prompt digests, engine identities."""
    digests = {}
    for name in config.bound_roles:
        role = config.role(name)
        digests[name] = load_prompt(role.prompt).digest
        if role.grammar:
            digests[f"{name}_grammar"] = hashlib.sha256(load_grammar(role.grammar).encode()).hexdigest()
        if role.json_schema:
            schema = load_json_schema(role.json_schema)
            digests[f"{name}_json_schema"] = hashlib.sha256(schema.encode()).hexdigest()
    return {
        "config": config.model_dump(mode="json"),
        "prompts": digests,
        "engines": {name: dataclasses.asdict(identities[name]) for name in config.bound_roles},
    }


def begin(path: Path, config: RunConfig, identities: Mapping[str, EngineIdentity]) -> RunDirectory:
    """Return the run of a config in a directory, new or to be gone on with. `write_run_file` records it.

    Where a model is served, how patiently it is asked and what a plan assumes may change between runs; what is measured
    may not.

    Raises:
        DhdError: the directory holds a run of another config; the differing keys are shown and nothing is changed.
    """
    wanted = resolve(config, identities)
    file = path / RUN_FILE
    if file.exists():
        differing = _differences(*(_flat(_measured(data)) for data in (_up_to_date(_read(file), file), wanted)))
        if fixed := [item for item in differing if not _MAY_CHANGE.fullmatch(item[0])]:
            raise DhdError(
                f"The run directory {path} holds a run of another config. These keys differ:\n"
                + "\n".join(f"  - {key}: there {there!r}, now {now!r}" for key, there, now in fixed)
                + "\nUse the config of that run, or another --run-dir. Nothing was changed."
            )
    return RunDirectory(path, config, dict(identities))


def write_run_file(directory: RunDirectory) -> None:
    """Record the config of a run, once its store has agreed to it; a file that says the same stays as it is."""
    file = directory.path / RUN_FILE
    text = yaml.safe_dump(resolve(directory.config, directory.identities), sort_keys=False, allow_unicode=True)
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        write_atomically(file, text)


def _up_to_date(data: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return the content of a run file with the defaults of settings that are newer than the file."""
    config = validate_config(data.get("config") or {}, str(file))
    engines = {
        role: {"served_as": "", "settings": "", **identity} for role, identity in (data.get("engines") or {}).items()
    }
    return {**data, "config": config.model_dump(mode="json"), "engines": engines}


def _measured(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a run file without what a cluster adds to its config."""
    return {**data, "config": _without_cluster(data["config"])}


def _without_cluster(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config as plain data with the engine that answers in place of each that only spreads it over a cluster.

    So a run may begin in one process and go on on a cluster.
    """
    engines = {name: e["engine"] if e["kind"] == "ray" else e for name, e in config["engines"].items()}
    return {**config, "engines": engines}


def check_models(directory: RunDirectory, store: Store) -> None:
    """Compare, role by role, the model that was asked with the models that answered.

    Raises:
        ModelMismatchError: a role was answered by another model than the declared one.
    """
    for role, models in store.answering_models().items():
        identity = directory.identities[_PROBED.get(role, role)]
        for model in models:
            if model != identity.comes_back:
                raise ModelMismatchError(
                    f"The stored answers of the {role} are of {model!r}, this config expects {identity.comes_back!r}. "
                    f"If that is one model under two names, set 'served_as' of its engine to {model or NO_MODEL!r}, as "
                    "before; if not, use a new --run-dir. Nothing was changed."
                )


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
    if not isinstance(data, dict) or not isinstance(data.get("config"), dict):
        raise DhdError(f"The run file {file} must be a YAML mapping with a 'config', as `run` writes it")
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
