"""What a failed HTTP try means: wait and try again, give up on this call, or stop the run."""

from __future__ import annotations

import email.utils
import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import urlsplit

import openai

from dhd_labels.engines.chat_api import BrokenAnswerError
from dhd_labels.engines.redact import reason_of, redact

FaultKind = Literal["busy", "away", "passing", "too_long", "refused", "fatal"]
"""`busy`: the server asks for less. `away`: nobody listens. `passing`: this try failed, the next may not. `too_long`:
the prompt does not fit. `refused`: this request will always fail. `fatal`: every request will."""
RETRIED = ("busy", "away", "passing")

_BUSY = (429, 503, 529)
_PASSING = (408, 409, 425)
_KEY = (401, 403)
_ROUTE = (404, 405)
_TOO_LONG = re.compile(
    r"context[ _](?:length|size|window)|exceed_context_size|(?:maximum|max)[ _]model[ _]len|prompt is too long"
    r"|input token count.{0,40}exceeds|inputs tokens \+ max_new_tokens",
    re.IGNORECASE,
)
_THIS_PROMPT = re.compile(r"flagged|moderation|content[ _](?:policy|filter)", re.IGNORECASE)
_NO_MODEL = re.compile(r"model_not_found|model `?[^ `]+`? (?:does not exist|not found)", re.IGNORECASE)
_NO_MONEY = re.compile(r"insufficient_quota|billing_hard_limit", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a try failed. `asked_wait_s` is what the server asked for (Retry-After), in seconds."""

    kind: FaultKind
    reason: str
    asked_wait_s: float | None = None
    status: int | None = None

    @property
    def unseen(self) -> bool:
        """Whether there may be an answer that never came whole: the server may charge for it."""
        return self.kind == "passing" and self.status is None


def fault_of(error: Exception, secrets: Sequence[str] = ()) -> Fault:
    """Tell what an exception of a try means. The reason holds no secret and no header."""
    if isinstance(error, openai.APIStatusError):
        return _status_fault(error, secrets)
    if isinstance(error, BrokenAnswerError):
        return Fault("passing", redact(str(error), secrets))
    if isinstance(error, openai.APIConnectionError | TimeoutError):
        return _connection_fault(error, secrets)
    return Fault("refused", reason_of(error, secrets))


def _connection_fault(error: Exception, secrets: Sequence[str]) -> Fault:
    chain = list(_causes(error))
    for cause in chain:
        if isinstance(cause, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(cause):
            return Fault("fatal", f"the certificate of the server is not accepted ({redact(str(cause), secrets)})")
    if any(type(cause).__name__ in ("ConnectError", "ConnectTimeout") for cause in chain):
        return Fault("away", f"no connection to the server ({redact(str(chain[-1]), secrets)})")
    if any(isinstance(cause, openai.APITimeoutError | TimeoutError) for cause in chain):
        return Fault("passing", "no answer within 'timeout_s'")
    return Fault("passing", f"the connection broke ({redact(str(chain[-1]), secrets) or 'no reason given'})")


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found:
        yield found
        found = found.__cause__ or found.__context__


def _status_fault(error: openai.APIStatusError, secrets: Sequence[str]) -> Fault:
    status = error.status_code
    # Some servers show parts of a bad key in their answer to it.
    words = "no message" if status == 401 else redact(_words(error.body) or "no message", secrets)
    if status < 400:
        words = f"a redirect to {_host(error.response.headers.get('location', ''), secrets)}"
    reason = f"HTTP {status}: {words}"
    signs = f"{words} {error.code or ''} {error.type or ''}"
    return Fault(_kind(status, signs), reason, asked_wait(error.response.headers), status)


def _kind(status: int, signs: str) -> FaultKind:
    if status == 403 and _THIS_PROMPT.search(signs):
        return "refused"
    if status < 400 or status in _KEY or status in _ROUTE or status == 402 or _NO_MONEY.search(signs):
        return "fatal"
    if status in _BUSY:
        return "busy"
    if status in _PASSING or status >= 500:
        return "passing"
    if _TOO_LONG.search(signs):
        return "too_long"
    return "fatal" if _NO_MODEL.search(signs) else "refused"


def _host(location: str, secrets: Sequence[str]) -> str:
    """Return where a redirect leads: another host, or the path on this one. A query is never shown."""
    try:
        parts = urlsplit(location)
        found = parts.netloc.rpartition("@")[2] or parts.path
    except ValueError:
        found = ""
    return redact(found, secrets) or "nowhere"


def _words(body: Any) -> str:
    """Return the message in an error body, in whichever place a server puts it."""
    if isinstance(body, dict):
        for name in ("message", "error", "detail"):
            if body.get(name):
                return _words(body[name])
    return str(body or "")


def asked_wait(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds a server asks to wait for: `retry-after-ms`, or `Retry-After` in seconds or as a date.

    A date is compared with the server's own clock (its `Date` header) where it is sent, else with `now`. None when
    nothing usable is asked for.
    """
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _seconds(value)
    if seconds is not None:
        return seconds
    until = _date(value)
    if until is None:
        return None
    return max(0.0, (until - (_date(headers.get("date", "")) or now or datetime.now(UTC))).total_seconds()) or None


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if seconds > 0 else None


def _date(value: str) -> datetime | None:
    try:
        found = email.utils.parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
