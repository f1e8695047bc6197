"""When the faults of single calls stop the whole stream, and what the user is told."""

from __future__ import annotations

from dhd_labels.config import OpenAIConfig
from dhd_labels.engines.address import key_of
from dhd_labels.engines.base import ChatReply
from dhd_labels.engines.http_faults import Fault
from dhd_labels.engines.redact import alike
from dhd_labels.errors import DhdError, EndpointError, EngineStoppedError

SAME_FAULTS = 10
"""Calls in a row that fail alike until the stream stops."""


class Stops:
    """Watches the outcomes of one stream.

    A fatal fault stops it at once. Requests that are refused stop it when none with their settings was answered and all
    are refused alike: the settings are wrong then, else it is the request. A server that is away stops it after as many
    calls.
    """

    def __init__(self, config: OpenAIConfig, place: str) -> None:
        self._config, self._place = config, place
        self._alike: str | None = None
        self._count = 0
        self._stop: Fault | None = None

    def note(self, outcome: ChatReply | Fault, *, answered: bool) -> None:
        """Take an outcome into account; `answered` when a call with the same settings was answered before."""
        if isinstance(outcome, ChatReply):
            self._count, self._alike = 0, None
        elif outcome.kind == "fatal":
            self._stop = self._stop or outcome
        elif outcome.kind in ("refused", "away"):
            self._repeat(outcome, answered)

    def raise_if_hopeless(self) -> None:
        """Raise the error that stops the stream, once there is a reason for it."""
        if self._stop:
            raise stop_of(self._stop, self._config, self._place)

    def _repeat(self, fault: Fault, answered: bool) -> None:
        said = f"{fault.kind} {alike(fault.reason)}"
        self._count = self._count + 1 if said == self._alike else 1
        self._alike = said
        if self._count >= SAME_FAULTS and (fault.kind == "away" or not answered):
            self._stop = self._stop or fault


def stop_of(fault: Fault, config: OpenAIConfig, place: str) -> DhdError:
    """Return the error that tells the user why nothing more is sent, and what to do."""
    model, reason = f"the model {config.model!r} at {place}", fault.reason
    if fault.kind == "away":
        return EngineStoppedError(
            f"The server of {model} cannot be reached: {reason}. Start it, or check 'base_url'. Every answer so far is "
            "in the store; run the same command to go on"
        )
    if fault.kind == "refused":
        return EndpointError(
            f"The first {SAME_FAULTS} calls to {model} were all refused alike: {reason}. Change the setting that the "
            "server names; a field it does not know comes from the role (sampling, 'reasoning_effort', 'extra_body')"
        )
    if fault.status is not None and fault.status < 400:
        return EndpointError(
            f"The server of {model} sends every call elsewhere: {reason}. Nothing was sent there. If that is your "
            "server, give its address in 'base_url'"
        )
    if fault.status in (401, 403):
        return EndpointError(f"The key for {model} is refused ({reason}): {_about_key(config)}")
    if fault.status in (404, 405):
        return EndpointError(
            f"The server has no such model or no such route, asked for {model} ({reason}). Check 'model', and that "
            "'base_url' ends where the API begins, mostly in /v1"
        )
    if fault.status is None:
        return EndpointError(
            f"The server of {model} cannot be trusted: {reason}. Use the host name of its certificate in 'base_url', "
            "or name the file of its authority in the environment variable 'SSL_CERT_FILE'"
        )
    return EndpointError(f"The server of {model} will answer no call: {reason}. Nothing more was sent")


def _about_key(config: OpenAIConfig) -> str:
    name = config.api_key_env
    if key_of(config):
        return f"put a valid one into the environment variable {name!r} ('api_key_env')"
    return f"the environment variable {name!r} ('api_key_env') is not set, put one there"
