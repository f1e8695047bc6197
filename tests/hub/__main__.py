"""Serve an empty Hub on loopback until a signal ends it: `python -m tests.hub --port 8799 --env hub.env`.

The file of --env appears when the Hub answers; a shell that sources it talks to this Hub and to no other.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import threading
from pathlib import Path

from tests.hub import running


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.hub", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    parser.add_argument("--env", type=Path, help="write the variables for clients into this file")
    parser.add_argument(
        "--home", type=Path, help="HF_HOME in those variables; a folder that goes with the Hub by default"
    )
    asked = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with tempfile.TemporaryDirectory() as place, running(asked.port) as hub:
        if asked.env is not None:
            lines = [
                f"export {name}={value}\n"
                for name, value in hub.environment((asked.home or Path(place)).resolve()).items()
            ]
            partial = asked.env.with_name(f".{asked.env.name}")
            partial.write_text("".join(lines))
            partial.rename(asked.env)
        print(f"Hub at {hub.endpoint}", flush=True)
        ended.wait()


if __name__ == "__main__":
    main()
