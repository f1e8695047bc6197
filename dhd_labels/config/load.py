"""Read a config from a preset or a YAML file, and explain what is wrong with it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from dhd_labels.config.engines import ENGINE_KINDS
from dhd_labels.config.run import RunConfig
from dhd_labels.errors import DhdError, did_you_mean


def preset_names() -> tuple[str, ...]:
    """Return the names of the presets that ship with the package."""
    folder = resources.files("dhd_labels").joinpath("presets")
    return tuple(sorted(p.name.removesuffix(".yaml") for p in folder.iterdir() if p.name.endswith(".yaml")))


def load_config(source: str, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a preset or a YAML file and apply `key=value` overrides (dotted keys, YAML values).

    Raises:
        DhdError: unknown preset, key or value, with the closest known name.
    """
    data = _parse_yaml(_read_source(source), source)
    for override in overrides:
        _apply(data, override)
    return validate_config(data, source)


def validate_config(data: Mapping[str, Any], source: str) -> RunConfig:
    """Check plain data against the schema and return the config, or raise one error that lists every problem."""
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        problems = "\n".join(f"  - {_explain(item)}" for item in error.errors())
        raise DhdError(f"The config {source!r} cannot be used:\n{problems}") from None


def _read_source(source: str) -> str:
    if source in preset_names():
        return resources.files("dhd_labels").joinpath("presets", f"{source}.yaml").read_text(encoding="utf-8")
    path = Path(source)
    if path.suffix not in (".yaml", ".yml"):
        raise DhdError(
            f"The config must be a preset or a .yaml file, got {source!r}. {did_you_mean(source, preset_names())}"
        )
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DhdError(f"The config file {source!r} cannot be read: {error}") from None


def _parse_yaml(text: str, source: str) -> dict[str, Any]:
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DhdError(f"The config {source!r} is not valid YAML: {error}") from None
    if not isinstance(data, dict):
        raise DhdError(f"The config {source!r} must be a YAML mapping, got {type(data).__name__}")
    return data


def _apply(data: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    if not equals or not key.strip():
        raise DhdError(f"The --set option must read key=value, got {override!r}")
    *parents, last = key.strip().split(".")
    node: Any = data
    for part in parents:
        node = _below(node, part, key)
    try:
        new = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise DhdError(f"The --set value of {key!r} is not valid YAML: {error}") from None
    if isinstance(node, list):
        node[_place(node, last, key)] = new
    else:
        node[last] = new


def _below(node: Any, part: str, key: str) -> Any:
    """Return what stands under a part of a dotted key; a section that is not there yet is made."""
    if isinstance(node, list):
        found = node[_place(node, part, key)]
    else:
        found = node.get(part)
        if found is None:
            found = node[part] = {}
    if not isinstance(found, dict | list):
        raise DhdError(f"The --set key {key!r} goes below {part!r}, which is a single value")
    return found


def _place(items: Sequence[Any], part: str, key: str) -> int:
    if not (part.isdecimal() and int(part) < len(items)):
        raise DhdError(f"The --set key {key!r} must have a number from 0 to {len(items) - 1} in place of {part!r}")
    return int(part)


def _explain(item: Mapping[str, Any]) -> str:
    """Turn one pydantic error into a sentence with the key, the value and a suggestion."""
    key = ".".join(map(str, _without_tag(item["loc"])))
    if item["type"] == "extra_forbidden":
        known = _known_keys(item["loc"])
        return f"The key {key!r} is unknown. {did_you_mean(str(item['loc'][-1]), known)}"
    if item["type"] == "missing":
        return f"The key {key!r} is missing"
    if item["type"] == "value_error":
        return str(item["ctx"]["error"])
    context, given = item.get("ctx", {}), item["input"]
    message = item["msg"].removeprefix("Input should be ")
    if item["type"] == "union_tag_invalid":  # the whole engine is the input, and only its kind is wrong
        key, given, message = f"{key}.kind", context["tag"], f"one of {context['expected_tags']}"
    elif item["type"] == "union_tag_not_found":
        return f"The key '{key}.kind' is missing"
    options = re.findall(r"'([^']*)'", str(context.get("expected", context.get("expected_tags", ""))))
    close = difflib.get_close_matches(str(given), options, n=1, cutoff=0.5)
    hint = f". Did you mean {close[0]!r}?" if close else ""
    return f"The {key!r} must be {message}, got {given!r}{hint}"


def _without_tag(location: Sequence[str | int]) -> list[str | int]:
    """Return a location without the tags that pydantic adds for the engine unions.

    They are engines, name, *kind*, key, and engines, name, *ray*, engine, *kind*, key.
    """
    if not (len(location) > 2 and location[0] == "engines" and location[2] in ENGINE_KINDS):
        return list(location)
    inner = len(location) > 4 and location[2:4] == ("ray", "engine") and location[4] in ENGINE_KINDS
    return [part for place, part in enumerate(location) if place != 2 and not (inner and place == 4)]


def _known_keys(location: Sequence[str | int]) -> Iterable[str]:
    """Return the legal keys at the place of an unknown one."""
    model: type[BaseModel] = RunConfig
    for part in location[:-1]:
        if not isinstance(part, str):
            continue
        if part in ENGINE_KINDS:
            model = ENGINE_KINDS[part]
        elif part in model.model_fields:
            model = _section(model.model_fields[part].annotation) or model
    return model.model_fields


def _section(annotation: Any) -> type[BaseModel] | None:
    """Return the section that an annotation such as `X`, `X | None` or `tuple[X, ...]` is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _section(inner))), None)
