"""Where a server is and with which key it is asked. The `openai` package is not needed to know."""

from __future__ import annotations

import os
from urllib.parse import SplitResult, urlsplit

from dhd_labels.config import EngineConfig, OpenAIConfig, RayConfig
from dhd_labels.errors import DhdError

NO_KEY = "no-key-needed"
"""What a server without keys is sent, since the client insists on one."""
IN_PROCESS = "this process"
_PORTS = {"http": 80, "https": 443}


def place_of(config: EngineConfig) -> str:
    """Return where an engine answers, for a plan to show."""
    if isinstance(config, RayConfig):
        workers = f"ray, {config.workers} worker{'s' if config.workers > 1 else ''}"
        if not isinstance(config.engine, OpenAIConfig):
            return workers
        others = len(set(config.servers)) - 1
        return f"{host_of(config.engine)}{f' and {others} more' if others > 0 else ''} ({workers})"
    return host_of(config) if isinstance(config, OpenAIConfig) else IN_PROCESS


def host_of(config: OpenAIConfig) -> str:
    """Return `host:port` for a plan to show, or `$NAME (not set)`."""
    if config.base_url_env and not _from_environment(config.base_url_env):
        return f"${config.base_url_env} (not set)"
    return place(base_url_of(config))


def base_url_of(config: OpenAIConfig) -> str:
    """Return the base URL from the config or the environment.

    Raises:
        DhdError: the variable is not set, or its value is no URL of a server. The variable's value is not shown.
    """
    if config.base_url:
        return _checked(config.base_url, f"'base_url' of model {config.model!r}", repr(config.base_url))
    name = str(config.base_url_env)
    value = _from_environment(name)
    if not value:
        raise DhdError(
            f"The environment variable {name!r} must hold the base URL of model {config.model!r} ('base_url_env'), "
            f"e.g. http://localhost:8000/v1, but it is not set: export {name}=..."
        )
    return _checked(value, f"environment variable {name!r} ('base_url_env')", "another value")


def key_of(config: OpenAIConfig) -> str | None:
    """Return the key from the environment, or None when there is none.

    Raises:
        DhdError: it cannot be a key, because a header cannot carry it. It is not shown.
    """
    key = _from_environment(config.api_key_env)
    if not key:
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise DhdError(
            f"The environment variable {config.api_key_env!r} ('api_key_env') must hold a key of printable ASCII "
            "characters without spaces, got a value that is not (not shown)"
        )
    return key


def place(url: str) -> str:
    """Return the `host:port` of a URL, and nothing else of it."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or _PORTS[parts.scheme]}"


def _from_environment(name: str) -> str:
    return os.environ.get(name, "").strip()


def _checked(url: str, what: str, shown: str) -> str:
    parts = _split(url)
    if parts is None:
        raise DhdError(f"The {what} must be a URL such as http://localhost:8000/v1, got {shown}")
    if parts.username or parts.password:
        raise DhdError(f"The {what} must not hold a user name or password: put the key into the 'api_key_env' variable")
    if parts.query or parts.fragment:
        raise DhdError(
            f"The {what} must end with the path of the API (mostly /v1), without '?' or '#' and what follows: put a "
            "key into the 'api_key_env' variable"
        )
    return url


def _split(url: str) -> SplitResult | None:
    """Return the parts of a URL that a server can have, else None."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _PORTS and parts.hostname and parts.port != 0
    except ValueError:  # a port that is no number, a broken IPv6 address
        return None
    return parts if usable else None
