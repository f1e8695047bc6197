"""The example card under `cards/example`: that of the oracle preset's data set, with what every release changes masked.

`python -m tests.dataset.example_card` (or `make card`) renders it again.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import yaml

from dhd_labels import api
from dhd_labels.dataset.header import KEY
from dhd_labels.dataset.merge import seal

EXAMPLE = Path(__file__).parents[2] / "cards" / "example"
REFRESH = "make card"
_VERSION_CELL = re.compile(r"(?m)^(\| [a-z-]+ \|) [0-9][^|]* \|$")
_CITED = re.compile(r"(?m)^(  version = ){.*},$")
_DIGEST = re.compile(r" sha256:[0-9a-f]{16}(?= -->)")


def render_example(work: Path) -> dict[str, bytes]:
    """Run and build the oracle preset in an empty folder; return the files of the example by their path."""
    api.run("oracle", run_dir=work / "run")
    data = work / "data"
    api.build(work / "run", data)
    figures = {f"figures/{path.name}": path.read_bytes() for path in sorted((data / "figures").iterdir())}
    return {"README.md": masked((data / "README.md").read_text(encoding="utf-8")).encode(), **figures}


def masked(card: str) -> str:
    """Return a card without versions of packages and digests of files, which differ where nothing else does."""
    text, body = card.removeprefix("---\n").split("\n---\n\n", 1)
    header: dict[str, Any] = yaml.safe_load(text)
    header[KEY]["sha256"] = dict.fromkeys(header[KEY]["sha256"], "(digest)")
    for config in header["configs"]:
        config["description"] = "rows sha256:(digest)"
    start = body.index("<!-- dhd-labels:begin versions")
    body = body[:start] + _VERSION_CELL.sub(r"\1 (version) |", body[start:])
    return seal(header, _DIGEST.sub("", _CITED.sub(r"\1{(version)},", body)))


def refresh() -> None:
    """Write the example again."""
    with tempfile.TemporaryDirectory() as work:
        found = render_example(Path(work))
    for old in EXAMPLE.rglob("*"):
        if old.is_file():
            old.unlink()
    for name, content in found.items():
        (EXAMPLE / name).parent.mkdir(parents=True, exist_ok=True)
        (EXAMPLE / name).write_bytes(content)


if __name__ == "__main__":
    refresh()
