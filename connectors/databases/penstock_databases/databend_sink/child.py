"""A process with the embedded engine, one for a folder; see `embedded`. It is run by its path.

The engine reads its folder when it is imported, holds a lock on it, and ends the process when it
panics: so it has a process of its own. Requests and answers are lines of JSON. When the requests
end, the process ends at once, whatever it is doing: nothing that was acknowledged is lost.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import Any, BinaryIO

_IN_USE = "could not acquire database file lock"


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what the engine prints is no answer
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    context = _start(answers)
    while context is not None:
        _answer(answers, _run(context, json.loads(requests.get())))


def _read(requests: queue.SimpleQueue[bytes]) -> None:
    for line in sys.stdin.buffer:
        requests.put(line)
    os._exit(0)  # the sink has gone: not one statement more


def _start(answers: BinaryIO) -> Any:
    try:
        from databend import SessionContext  # noqa: PLC0415 - reads the environment

        # without a tenant's name tables hide at the next start
        context = SessionContext(tenant="default")
    except ImportError as error:
        _answer(answers, {"error": str(error), "kind": "missing"})
    except BaseException as error:  # noqa: BLE001 - a panic is no Exception
        kind = "in_use" if _IN_USE in str(error) else "failed"
        _answer(answers, {"error": str(error), "kind": kind})
    else:
        _answer(answers, {"rows": []})
        return context
    return None


def _run(context: Any, request: dict[str, Any]) -> dict[str, Any]:
    try:
        frame = context.sql(request["sql"])
        if not request["rows"]:
            frame.collect()  # asking for Arrow ends the process where there are no rows
            return {"rows": []}
        batches = [batch.to_pylist() for batch in frame.to_py_arrow()]
        return {"rows": [[*row.values()] for rows in batches for row in rows]}
    except BaseException as error:  # noqa: BLE001 - a panic is no Exception
        return {"error": str(error)}


def _answer(answers: BinaryIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer, default=str).encode() + b"\n")


if __name__ == "__main__":
    main()
