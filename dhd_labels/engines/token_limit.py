"""Find prompts that are too long before they are sent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dhd_labels.engines.base import Turn
from dhd_labels.engines.redact import reason_of
from dhd_labels.errors import DhdError

_COMMIT = re.compile(r"[0-9a-f]{7,40}")


class TokenLimit:
    """Counts the tokens of what a chat says.

    The chat template of the server adds a few more, so this is a lower bound: what it finds too long is too long, and
    what it misses by those few the server refuses.
    """

    def __init__(self, tokenizer: str, revision: str, most: int) -> None:
        self._tokenizer = _load(tokenizer, revision)
        self._most = most

    def excess(self, turns: Sequence[Turn]) -> tuple[int, str] | None:
        """Return (tokens, reason) of a prompt that leaves no room for an answer, or None."""
        encoded = self._tokenizer.encode_batch([turn.content for turn in turns], add_special_tokens=False)
        tokens = sum(len(turn.ids) for turn in encoded)
        if tokens < self._most:
            return None
        return tokens, f"the prompt has at least {tokens} tokens, 'max_model_len' is {self._most}"


def _load(tokenizer: str, revision: str) -> Any:
    from tokenizers import Tokenizer

    path = Path(tokenizer).expanduser()
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        if file.is_file():
            return Tokenizer.from_file(str(file))
        return Tokenizer.from_pretrained(tokenizer, revision=revision if _COMMIT.fullmatch(revision) else "main")
    except Exception as error:  # the library raises plain Exception
        raise DhdError(
            f"The 'tokenizer' must be a tokenizer.json, a folder with one, or a Hub id, got {tokenizer!r}: "
            f"{reason_of(error)}"
        ) from None
