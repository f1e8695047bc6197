"""A worker process: compares expressions, one JSON line in, one JSON line out. Started by `workers.Pool` only.

It limits itself: memory by RLIMIT_AS, and time by an alarm whose default action is the kernel's kill, which no loop in
C can hold up and which works even when the parent is gone. It ends when its input does.
"""

from __future__ import annotations

import json
import resource
import signal
import sys

from dhd_labels.grading.compare import compare
from dhd_labels.grading.evaluate import TooLargeError
from dhd_labels.grading.mathtext import read_math
from dhd_labels.grading.notation import UnreadableError
from dhd_labels.grading.numeric import MAX_STEPS, Scalars
from dhd_labels.grading.structure import structure

MEMORY_BYTES = 1 << 30
_GRACE_S = 1.0


def answer(request: dict[str, object]) -> dict[str, str]:
    """Compare the two expressions of a request; return the comparison, or why there is none."""
    thousands = bool(request["thousands"])
    scalars = Scalars(int(str(request.get("steps", MAX_STEPS))))
    try:
        trees = [structure(read_math(str(request[key]), thousands)) for key in ("gold", "given")]
        return {"found": compare(trees[0], trees[1], scalars.compare)}
    except UnreadableError as error:
        return {"found": "unknown", "reason": str(error)}
    except TooLargeError as error:
        return {"found": "timeout", "reason": str(error)}
    except (MemoryError, RecursionError) as error:
        return {"found": "timeout", "reason": type(error).__name__}
    except Exception as error:  # a mistake of ours costs this answer its verdict, and no worker
        return {"found": "unknown", "reason": f"grader_error: {type(error).__name__}: {error}"}


def limit_memory() -> None:
    """Make an allocation beyond `MEMORY_BYTES` a MemoryError of this process."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    soft = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def main() -> None:
    """Serve requests until the input ends."""
    limit_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _send({"found": "ready"})
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, float(request["limit_s"]) + _GRACE_S)
        reply = answer(request)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _send(reply)


def _send(reply: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
