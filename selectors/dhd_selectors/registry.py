"""Selectors by name: the built-in ones, those that installed packages offer, and classes of yours.

A package adds a selector with an entry point in the group `dhd_selectors`; nothing registers itself on import.
`module:Class` names a class of any importable module, `path.py:Class` one of a file, which is run under a private
module name: `sys.path` stays as it is, so the file can import installed packages but not its neighbours.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from dhd_labels.errors import DhdError, did_you_mean
from dhd_selectors.base import Selector

ENTRY_POINT_GROUP = "dhd_selectors"
BUILT_IN = {
    "keep-all": "dhd_selectors.baselines:KeepAll",
    "random": "dhd_selectors.baselines:RandomRemoval",
    "consensus": "dhd_selectors.baselines:Consensus",
    "confidence": "dhd_selectors.baselines:Confidence",
    "drop-wrong": "dhd_selectors.baselines:DropWrong",
    "oracle-correct": "dhd_selectors.correctness:OracleCorrect",
    "learned-correct": "dhd_selectors.correctness:LearnedCorrect",
    "logistic": "dhd_selectors.logistic:LogisticSelector",
    "lgbm": "dhd_selectors.lgbm:LightGBMSelector",
    "transformer": "dhd_selectors.transformer:TransformerSelector",
    "hindsight": "dhd_selectors.baselines:Hindsight",
}
HOW_TO_NAME = "a name, an importable 'module:Class', or 'path.py:Class'"
_METHODS = ("get_params", "fit", "predict_value")


def selector_names() -> tuple[str, ...]:
    """Return the names that `load_selector` knows, sorted."""
    return tuple(sorted({*BUILT_IN, *_installed()}))


def load_selector(name: str, **parameters: Any) -> Selector:
    """Make a new, unfitted selector.

    Args:
        name: a built-in name, the name of an entry point of the group `dhd_selectors` (built-in names win), an
            importable `module:Class`, or `path.py:Class`, relative to the working directory.
        parameters: constructor parameters; `random_state` and `n_jobs` are left out where the constructor has none.

    Raises:
        DhdError: the name or a parameter is unknown, or what it names cannot be imported, cannot be made without
            arguments or is not a selector. The error gives the file and line.
    """
    made = _make(name, selector_factory(name))
    known = _parameters(name, made)
    wanted = {key: value for key, value in parameters.items() if key in known or key not in ("random_state", "n_jobs")}
    if unknown := sorted(set(wanted) - known):
        raise DhdError(
            f"The parameters of the selector {name!r} must be those of its constructor, got {', '.join(unknown)}. "
            + did_you_mean(unknown[0], known)
        )
    return type(made)(**{**made.get_params(deep=False), **wanted}) if wanted else made


def selector_factory(name: str) -> Callable[[], object]:
    """Return what the name stands for, as in `load_selector`, without calling it."""
    if name in BUILT_IN:
        module, attribute = BUILT_IN[name].split(":")
        return cast(Callable[[], object], getattr(importlib.import_module(module), attribute))
    if name in (installed := _installed()):
        return _of_entry_point(name, installed[name])
    place, colon, attribute = name.rpartition(":")
    if not colon:
        file = f" To use a file, name its class too: {name}:Class." if name.endswith(".py") else ""
        raise DhdError(f"The selector {name!r} is not known. {did_you_mean(name, selector_names())}{file}")
    if not place or not attribute:
        raise DhdError(f"The selector must be {HOW_TO_NAME}, got {name!r}.")
    module_of = _module_of_file if place.endswith(".py") else _module_of_name
    return _attribute(name, module_of(name, place), attribute)


def is_shipped(name: str) -> bool:
    """Return whether a name needs no code but what is installed here under that name: built in, or an entry point."""
    return name in BUILT_IN or name in _installed()


def public_name(name: str) -> str:
    """Return the name without the folder of a file, which is nobody else's business."""
    place, colon, attribute = name.rpartition(":")
    return f"{Path(place).name}:{attribute}" if colon and place.endswith(".py") else name


def where(error: BaseException, file: str | None = None) -> str:
    """Return "file:line" of the last line that an error passed (in `file` if it did), or "" without a traceback."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((f for f in reversed(frames) if f.filename == file), frames[-1] if frames else None)
    return f"{frame.filename}:{frame.lineno}" if frame else ""


def _make(name: str, factory: Callable[[], object]) -> Selector:
    """Call the constructor without arguments and check what it made."""
    if needed := _required_parameters(factory):
        raise DhdError(
            f"The constructor of the selector {name!r} must work without arguments, but needs {', '.join(needed)} "
            f"({_defined(factory)}). Give each a default."
        )
    try:
        made = factory()
    except Exception as error:
        raise DhdError(
            f"The constructor of the selector {name!r} must only store its parameters, but raised {_said(error)} "
            f"({where(error)}). Mend it, and check parameters in fit."
        ) from error
    lacking = [method for method in _METHODS if not callable(getattr(made, method, None))]
    if lacking or isinstance(made, type):
        raise DhdError(
            f"The selector {name!r} must have get_params, fit and predict_value, but {_called(made)} has no "
            f"{' and no '.join(lacking or ['instance'])} ({_defined(factory)}). See dhd_selectors.base.Selector; "
            "sklearn.base.BaseEstimator gives get_params."
        )
    return cast(Selector, made)


def _parameters(name: str, made: Selector) -> set[str]:
    """Return the names of the constructor's parameters."""
    try:
        return set(made.get_params(deep=False))
    except Exception as error:
        raise DhdError(
            f"The 'get_params' of the selector {name!r} must return its constructor's parameters, but raised "
            f"{_said(error)} ({_defined(type(made))}). Name each parameter, and store it under its own name."
        ) from error


def _of_entry_point(name: str, point: EntryPoint) -> Callable[[], object]:
    try:
        return cast(Callable[[], object], point.load())
    except (Exception, SystemExit) as error:
        raise DhdError(
            f"The selector {name!r} ({point.value}) cannot be imported: {_said(error)} ({where(error)}). Mend or "
            "remove the package that offers it."
        ) from error


def _module_of_name(name: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise _import_failed(name, error) from error
        raise DhdError(
            f"The module {module!r} of the selector {name!r} must be importable, but there is no {error.name!r}. "
            "Install it, or name a file: path.py:Class."
        ) from error
    except (Exception, SystemExit) as error:
        raise _import_failed(name, error) from error


def _module_of_file(name: str, place: str) -> ModuleType:
    """Run a file under a private module name; the same content is run once."""
    path = Path(place).expanduser().resolve()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DhdError(
            f"The file of the selector {name!r} must be readable, got {str(path)!r}: {error.strerror}."
        ) from error
    private = f"_dhd_selector_{hashlib.sha256(str(path).encode() + bytes(1) + content).hexdigest()[:16]}"
    if private in sys.modules:
        return sys.modules[private]
    spec = importlib.util.spec_from_file_location(private, path)
    if spec is None or spec.loader is None:
        raise DhdError(f"The file of the selector {name!r} must be Python source, got {str(path)!r}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[private] = module  # dataclasses and clones look their module up
    try:
        exec(compile(content, str(path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102  (the user's own file)
    except (Exception, SystemExit) as error:
        del sys.modules[private]
        raise _import_failed(name, error, str(path)) from error
    return module


def _import_failed(name: str, error: BaseException, file: str | None = None) -> DhdError:
    how = "Mend that line."
    if isinstance(error, ModuleNotFoundError):
        how = "Install it"
        how += "; a file beside this one is not found: make them a package and use module:Class." if file else "."
    return DhdError(f"The selector {name!r} cannot be imported: {_said(error)} ({where(error, file)}). {how}")


def _attribute(name: str, module: ModuleType, attribute: str) -> Callable[[], object]:
    try:
        found = functools.reduce(getattr, attribute.split("."), cast(Any, module))
    except AttributeError:
        classes = [key for key, value in vars(module).items() if inspect.isclass(value) and not key.startswith("_")]
        raise DhdError(
            f"The selector {name!r} must name a class of {module.__file__}, which has no {attribute!r}. "
            + did_you_mean(attribute, classes)
        ) from None
    if not callable(found):
        raise DhdError(f"The selector {name!r} must be a class, got {_called(found)} ({module.__file__}).")
    return cast(Callable[[], object], found)


def _required_parameters(factory: Callable[[], object]) -> list[str]:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # a class written in C
        return []
    named = (p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
    return [p.name for p in named if p.default is p.empty]


def _defined(thing: object) -> str:
    """Return "file:line" where a class or function is defined, or its module."""
    try:
        return f"{inspect.getsourcefile(cast(Any, thing))}:{inspect.getsourcelines(cast(Any, thing))[1]}"
    except (OSError, TypeError):
        return str(getattr(thing, "__module__", "no source"))


def _called(thing: object) -> str:
    return getattr(thing, "__name__", type(thing).__name__)


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
