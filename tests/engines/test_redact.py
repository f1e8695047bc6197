"""No form of a secret that a server can send back is left in a text that is stored, logged or shown."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.engines.redact import redact

FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "a bearer header": lambda key: f"{{'Authorization': 'Bearer {key}'}}",
    "a query": lambda key: f"https://host/v1/chat?api_key={quote(key, safe='')}&x=1",
    "every character of a URL escaped": lambda key: "".join(f"%{ord(c):02X}" for c in key),
    "JSON": json.dumps,
    "JSON, every character escaped": lambda key: "".join(f"\\u{ord(c):04x}" for c in key),
    "JSON, half of it escaped": lambda key: "".join(f"\\u{ord(c):04x}" if i % 2 else c for i, c in enumerate(key)),
    "JSON in JSON": lambda key: json.dumps(json.dumps({"key": key})),
    "HTML": lambda key: html.escape(key),
    "HTML, every character escaped": lambda key: "".join(f"&#{ord(c)};" for c in key),
    "basic, no user": lambda key: "Basic " + base64.b64encode(f":{key}".encode()).decode(),
    "basic, a user": lambda key: "Basic " + base64.b64encode(f"me:{key}".encode()).decode(),
    "basic, a password": lambda key: "Basic " + base64.b64encode(f"{key}:".encode()).decode(),
    "Base64 for URLs": lambda key: base64.urlsafe_b64encode(f"ab{key}cd".encode()).decode(),
    "two lines": lambda key: f"{key[: len(key) // 2]}\n{key[len(key) // 2 :]}",
}
KEYS = st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=24, max_size=60).filter(
    lambda key: len(set(key)) > 8
)


@pytest.mark.parametrize("form", FORMS)
@given(KEYS, st.integers(0, 30))
def test_no_form_of_a_key_is_left(form: str, key: str, before: int) -> None:
    shown = FORMS[form](key)
    left = redact(f"{'w ' * before}the server got {shown} and said no", (key,))
    assert "***" in left
    for start in range(len(key) - 10):
        assert key[start : start + 11] not in left
    assert "the server got" in left


@pytest.mark.parametrize("form", [name for name in FORMS if "asic" in name or "Base64" in name])
@given(KEYS)
def test_what_is_left_of_base64_does_not_give_the_key(form: str, key: str) -> None:
    left = redact(f"got {FORMS[form](key)}", (key,)).replace("***", " ").translate(str.maketrans("-_", "+/"))
    for word in left.split():
        for start in range(4):
            whole = word[start : start + (len(word) - start) // 4 * 4].rstrip("=")
            assert key[3:-3].encode() not in base64.b64decode(whole + "==")


@given(KEYS, st.integers(8, 20), st.integers(8, 20))
def test_a_shown_beginning_and_end_of_a_key_go_too(key: str, head: int, tail: int) -> None:
    """As servers write it: `sk-abcdefgh...wxyz1234`."""
    assert redact(f"bad key {key[:head]}...{key[-tail:]}", (key,)).count(key[:head]) == 0
    assert key[-tail:] not in redact(f"bad key {key[:head]}...{key[-tail:]}", (key,))


@given(st.text(alphabet="abcdef ,.:", max_size=200))
def test_a_text_without_a_secret_stays(text: str) -> None:
    assert redact(text, ("Q" * 24,)) == " ".join(text.split())


def test_escapes_that_hide_nothing_stay_as_they_are() -> None:
    text = r"bad field \u00e9 %41 &amp; C:\temp"
    assert redact(text, ("Q" * 24,)) == text


def test_other_secrets_of_the_environment_go_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SERVICE_TOKEN", "correct-horse-battery")
    basic = base64.b64encode(b"u:correct-horse-battery").decode()
    assert "horse" not in redact(f"correct-horse-battery {quote('correct-horse-battery')}")
    assert basic[4:20] not in redact(basic)
