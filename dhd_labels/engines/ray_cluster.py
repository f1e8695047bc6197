"""The connection of this process to Ray: made once for all of its ray engines, quiet, and taken down with the last."""

from __future__ import annotations

import logging
import math
import os
from typing import Any

from dhd_labels.config import RayConfig
from dhd_labels.engines.redact import reason_of, redact
from dhd_labels.errors import DhdError

INSTALL = "Install it on every node: pip install -e '.[ray]'"
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_SCHEDULER_EVENTS": "0"}
"""Environment that Ray reads when it is imported; what the user has set stays."""
_STORE_BYTES = 200 * 2**20
"""Memory for objects on this machine. Requests and replies are small; Ray would reserve 30 % of all memory."""


class Connection:
    """What this process has to do with Ray. It is left alone where somebody else has connected before."""

    def __init__(self) -> None:
        self._users = 0
        self._ours = False

    def open(self, config: RayConfig) -> Any:
        """Connect, or use the connection that is there, and return the library.

        Raises:
            DhdError: Ray is not installed, or there is no cluster at the address.
        """
        ray = _import_library()
        if not ray.is_initialized():
            _connect(ray, config)
            self._ours = True
        self._users += 1
        return ray

    def close(self) -> None:
        """Disconnect when nobody else needs the connection. A Ray that was started for us ends with it."""
        self._users -= 1
        if self._users == 0 and self._ours:
            self._ours = False
            ray = _import_library()
            ray.shutdown()
            ray._private.worker._worker_logs_enabled = True


CONNECTION = Connection()


def has_room(ray: Any) -> str:
    """Return in words what the cluster has, taken or not."""
    try:
        found = ray.cluster_resources()
        nodes = sum(node["Alive"] for node in ray.nodes())
    except Exception as error:  # the cluster itself may be what was lost
        return f"a cluster that cannot be asked ({reason_of(error)})"
    return f"{nodes} nodes with {found.get('CPU', 0):g} CPUs and {found.get('GPU', 0):g} GPUs"


def why(error: BaseException) -> str:
    """Return what Ray says of a lost worker on one short line: how its text begins and how it ends."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    said = lines[0] if len(lines) == 1 else f"{lines[0][:150]} ... {lines[-1]}"
    return f"{type(error).__name__}: {redact(said)[:300]}"


def _connect(ray: Any, config: RayConfig) -> None:
    # Ray prints what happens to nodes on stdout, also when it is told to log nothing; that would break `--json`.
    ray._private.worker._worker_logs_enabled = False
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False, "include_dashboard": False}
    try:
        if config.address is None:
            cpus = max(len(os.sched_getaffinity(0)), math.ceil(config.workers * config.cpus))
            ray.init(address="local", num_cpus=cpus, object_store_memory=_STORE_BYTES, **quiet)
        else:
            ray.init(address=config.address, **quiet)
    except Exception as error:  # a refused connection, no cluster, another version of Ray or Python, a missing package
        raise DhdError(
            f"The 'address' of a ray engine must be that of a running cluster, got {config.address!r}: {why(error)}. "
            "Start one (ray start --head), check that every node has the same Ray and Python, or leave 'address' out "
            "to use this machine"
        ) from None


def _import_library() -> Any:
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise DhdError(f"The engine 'ray' needs the package ray ({reason_of(error)}). {INSTALL}") from None
    return ray
