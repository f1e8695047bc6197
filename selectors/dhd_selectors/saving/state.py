"""A fitted selector as files that hold data and no code.

A selector says itself how it is written when it has `save(folder)` and the classmethod `load(folder)` (`Savable`). Any
other is written by its conventions: the constructor's parameters and the fitted attributes, whose names end in an
underscore. Numbers, texts and lists, tuples and dictionaries of them go to `state.json`, NumPy arrays to one
safetensors file, LightGBM boosters to LightGBM's own text format, scikit-learn estimators to skops files that are
loaded with no type trusted beyond skops's own list. Nothing is ever unpickled.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, cast, runtime_checkable

import numpy as np

from dhd_labels.errors import DhdError
from dhd_selectors.base import Selector, selector_name
from dhd_selectors.saving.trees import check_trees

STATE_NAME = "state.json"
ARRAYS_NAME = "arrays.safetensors"
_TAG = "__kind__"
_OURS = re.compile(r"dhd_selectors\.[a-z_.]+:[A-Za-z]+")
_HOW_TO_SAVE = "Give the class save(folder) and a classmethod load(folder); see docs/selectors.md."


@runtime_checkable
class Savable(Protocol):
    """A selector that writes and reads itself."""

    def save(self, folder: Path) -> None:
        """Write everything that `load` needs into an existing, empty folder."""
        ...

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Return a fitted selector from what `save` wrote. It must run nothing that the files say."""
        ...


def save_selector(selector: Selector, folder: Path) -> None:
    """Write a fitted selector into an existing, empty folder.

    Raises:
        DhdError: it holds something that is not data and does not write itself.
    """
    if isinstance(selector, Savable):
        selector.save(folder)
    elif hasattr(selector, "save") or hasattr(selector, "load"):
        raise DhdError(f"{selector_name(selector)} must have both save(folder) and load(folder), got only one of them.")
    else:
        written = _Files(folder)
        state = _encode_selector(selector, written, "")
        if written.arrays:
            from safetensors.numpy import save_file

            save_file(written.arrays, folder / ARRAYS_NAME)
        (folder / STATE_NAME).write_text(json.dumps(state, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def load_selector_of(cls: type, folder: Path) -> Selector:
    """Return the fitted selector of a class that `save_selector` wrote into a folder.

    Raises:
        DhdError: the files are not what `save_selector` writes for this class.
    """
    if issubclass(cls, Savable):
        return cast(Selector, cls.load(folder))
    files = _Files(folder)
    try:
        state = json.loads((folder / STATE_NAME).read_text(encoding="utf-8"))
        if (folder / ARRAYS_NAME).exists():
            from safetensors.numpy import load_file

            files.arrays = load_file(folder / ARRAYS_NAME)
        return _decode_selector(cls, state, files)
    except DhdError:
        raise
    except Exception as error:
        raise DhdError(
            f"The state of {cls.__name__} in {folder} cannot be read ({type(error).__name__}: {str(error)[:200]}). "
            "It was written by another version, or the class has changed; fit and save it again."
        ) from error


@dataclass(slots=True)
class _Files:
    """The folder, and the arrays that go into its one safetensors file."""

    folder: Path
    arrays: dict[str, Any] = field(default_factory=dict)


def _encode_selector(selector: Any, files: _Files, place: str) -> dict[str, Any]:
    parameters = selector.get_params(deep=False)
    strangers = [k for k in vars(selector) if k not in parameters and not k.endswith("_") and not k.startswith("_")]
    if strangers:
        raise DhdError(
            f"The attributes of {selector_name(selector)} must be parameters of its constructor or end in an "
            f"underscore to be saved, got {', '.join(strangers)}. Rename them, or: {_HOW_TO_SAVE}"
        )
    fitted = {key: value for key, value in vars(selector).items() if key.endswith("_") and not key.startswith("_")}
    return {
        "parameters": {key: _encode(value, files, f"{place}{key}", selector) for key, value in parameters.items()},
        "fitted": {key: _encode(value, files, f"{place}{key}", selector) for key, value in fitted.items()},
    }


def _encode(value: Any, files: _Files, place: str, owner: Any) -> Any:
    """Return a value as JSON; what is none goes to a file of its own, which a tag names."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_TAG: "float", "value": str(value)}
    if isinstance(value, list | tuple):
        items = [_encode(item, files, f"{place}.{number}", owner) for number, item in enumerate(value)]
        return items if isinstance(value, list) else {_TAG: "tuple", "value": items}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {
            _TAG: "dict",
            "value": {key: _encode(item, files, f"{place}.{key}", owner) for key, item in value.items()},
        }
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        files.arrays[place] = np.ascontiguousarray(value)
        return {_TAG: "array", "value": place}
    return _encode_model(value, files, place, owner)


def _encode_model(value: Any, files: _Files, place: str, owner: Any) -> Any:
    cls = type(value)
    kind = f"{cls.__module__}:{cls.__name__}"
    if _OURS.fullmatch(kind) and hasattr(value, "get_params"):
        return {_TAG: "selector", "class": kind, "value": _encode_selector(value, files, f"{place}.")}
    if _OURS.fullmatch(kind) and dataclasses.is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        encoded = {name: _encode(part, files, f"{place}.{name}", owner) for name, part in parts.items()}
        return {_TAG: "record", "class": kind, "value": encoded}
    if kind == "lightgbm.basic:Booster":
        file = files.folder / f"{place}.txt"
        value.save_model(file)
        try:
            check_trees(file.read_bytes())
        except (KeyError, ValueError) as error:
            raise DhdError(f"The booster {place!r} of {selector_name(owner)} cannot be saved: {error}.") from error
        return {_TAG: "booster", "value": f"{place}.txt"}
    if kind.startswith("sklearn.") and hasattr(value, "get_params"):
        import skops.io

        skops.io.dump(value, files.folder / f"{place}.skops")
        return {_TAG: "sklearn", "value": f"{place}.skops"}
    raise DhdError(
        f"The attribute {place!r} of {selector_name(owner)} must be numbers, text, lists of these, NumPy arrays, "
        f"LightGBM boosters or scikit-learn estimators to be saved, got {kind.replace(':', '.')}. {_HOW_TO_SAVE}"
    )


def _decode_selector(cls: type, state: Any, files: _Files) -> Selector:
    selector: Any = cls(**{key: _decode(value, files) for key, value in state["parameters"].items()})
    for key, value in state["fitted"].items():
        if not key.endswith("_") or key.startswith("_"):
            raise DhdError(f"A fitted attribute in {files.folder} must end in an underscore, got {key!r}.")
        setattr(selector, key, _decode(value, files))
    return cast(Selector, selector)


def _decode(value: Any, files: _Files) -> Any:
    if isinstance(value, list):
        return [_decode(item, files) for item in value]
    if not isinstance(value, dict):
        return value
    kind, content = value[_TAG], value["value"]
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(_decode(item, files) for item in content)
    if kind == "dict":
        return {key: _decode(item, files) for key, item in content.items()}
    if kind == "array":
        return files.arrays[content]
    if kind == "selector":
        return _decode_selector(_our_class(value["class"], "a selector"), content, files)
    if kind == "record":
        return _our_class(value["class"], "a record")(**{key: _decode(item, files) for key, item in content.items()})
    if kind == "booster":
        import lightgbm

        file = files.folder / _plain_name(content)
        check_trees(file.read_bytes())
        return lightgbm.Booster(model_file=file)
    if kind == "sklearn":
        return _load_sklearn(files.folder / _plain_name(content))
    raise DhdError(f"The state in {files.folder} must hold kinds of values that this version knows, got {kind!r}.")


def _our_class(name: str, what: str) -> type:
    """Return a selector or a dataclass of this package; a file cannot name any other."""
    if not _OURS.fullmatch(name):
        raise DhdError(f"What a saved selector is made of must be of dhd_selectors, got {name!r}.")
    module, attribute = name.split(":")
    found = getattr(importlib.import_module(module), attribute)
    fits = isinstance(found, Selector) if what == "a selector" else dataclasses.is_dataclass(found)
    if not isinstance(found, type) or not fits:
        raise DhdError(f"The {name!r} in a saved selector must be {what}.")
    return found


def _plain_name(name: str) -> str:
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise DhdError(f"A file of a saved selector must have a plain name, got {name!r}.")
    return name


def _load_sklearn(file: Path) -> Any:
    """Load a scikit-learn estimator; skops's own list of types is trusted and nothing else."""
    import skops.io
    from sklearn.exceptions import InconsistentVersionWarning

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", InconsistentVersionWarning)
            return skops.io.load(file, trusted=[])
    except InconsistentVersionWarning as error:
        raise DhdError(
            f"The file {file.name} was written by scikit-learn {error.original_sklearn_version}, and this is "
            f"{error.current_sklearn_version}. Install that version, or fit and save again."
        ) from error
