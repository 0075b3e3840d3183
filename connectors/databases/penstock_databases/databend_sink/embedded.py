"""A session with the embedded engine: Databend itself, in a process of its own for each folder.

Tasks of this process that use one folder share one engine, one session of it, and one lock: the
engine takes one statement at a time. A folder that another process holds is `databend.in_use`.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from penstock_connector import ConfigError, ConnectorError, RetriableError
from penstock_databases.databend_sink import failing
from penstock_databases.databend_sink.session import Row
from penstock_databases.databend_sink.sql import Value, filled
from penstock_databases.failing import one_line, sql_error

_CHILD: Final = Path(__file__).with_name("child.py")

_STARTS_WITHIN: Final = 15.0
"""Seconds for a process to start and to get its folder. A killed sink's engine lets go of it
within milliseconds; longer would only hide that somebody else has it."""

_TRIED_EVERY: Final = 0.1
_STATEMENT_WITHIN: Final = 100.0
"""Seconds for a statement, and for a turn; a host waits for 120 in all. A process that takes longer
is ended: what it had not committed is undone."""

_STAGE: Final = "_data/stage/user/root"
"""Where the engine keeps files of the user's own stage, in its folder."""

_PASSED_ON: Final = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR")
"""What the process gets of our environment. Settings of Databend come by the environment, too:
none of them is inherited, and no secret."""


class EmbeddedSession:
    """A task's share of a folder's engine; see `Session`."""

    def __init__(self, folder: str) -> None:
        self._engine = _taken(folder)
        self._open = True

    def execute(self, sql: str, values: Sequence[Value] = ()) -> None:
        """Run a statement that has no rows."""
        self._engine.run(filled(sql, values), rows=False)

    def query(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a statement; returns its rows."""
        rows = self._engine.run(filled(sql, values), rows=True)
        return [tuple(None if value is None else str(value) for value in row) for row in rows]

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other tasks' statements out: the session of the engine is one for all."""
        with self._engine.turn():
            yield

    def upload(self, name: str, file: BinaryIO) -> None:
        """Put a file into the user's own stage."""
        path = Path(self._engine.folder, _STAGE, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file.seek(0)
            with path.open("wb") as staged:
                shutil.copyfileobj(file, staged, 1 << 20)
        except OSError as error:
            raise sql_error("lost", self._engine.folder, error.strerror or error) from error

    def close(self) -> None:
        """Give the engine back; the last task ends it."""
        if self._open:
            self._open = False
            _given_back(self._engine)


class _Engine:
    """A folder's process. It is started anew after it ended."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.users = 0
        self._turn = threading.RLock()
        self._process: _Process | None = None

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Keep other tasks out for a while."""
        if not self._turn.acquire(timeout=_STATEMENT_WITHIN):
            raise sql_error("busy", self.folder, "other tasks write to the folder")
        try:
            yield
        finally:
            self._turn.release()

    def run(self, statement: str, *, rows: bool) -> list[list[Any]]:
        """Run a statement."""
        with self.turn():
            answer = self._started().ask({"sql": statement, "rows": rows}, _STATEMENT_WITHIN)
            if "error" in answer:
                raise failing.databend_error(answer["error"], f"databend+local:{self.folder}")
            found: list[list[Any]] = answer["rows"]
            return found

    def start(self) -> None:
        """Start the process, where there is none."""
        with self.turn():
            self._started()

    def end(self) -> None:
        """End the process."""
        with self.turn():
            if self._process is not None:
                self._process.end()
                self._process = None

    def _started(self) -> _Process:
        if self._process is not None and self._process.alive:
            return self._process
        until = time.monotonic() + _STARTS_WITHIN
        while True:
            try:
                self._process = _start(self.folder, max(1.0, until - time.monotonic()))
            except RetriableError as error:
                if error.code != "databend.in_use" or time.monotonic() > until:
                    raise
            else:
                return self._process
            time.sleep(_TRIED_EVERY)


def _start(folder: str, within: float) -> _Process:
    process = _Process(folder)
    answer = process.ask(None, within)
    if "error" not in answer:
        return process
    process.end()
    said = one_line(answer["error"])
    match answer["kind"]:
        case "in_use":
            raise RetriableError(
                "databend.in_use",
                f"another process has the folder {folder}",
                fix="An engine's folder belongs to one process: end the other one. It is tried "
                "again.",
            )
        case "missing":
            raise ConfigError(
                "databend.no_engine",
                f"the embedded engine is not installed: {said}",
                fix="pip install databend, or write to a server by jdbc:databend://….",
            )
    raise ConnectorError("databend.engine", f"the engine did not start on {folder}: {said}")


class _Process:
    """A process that runs `child`. Requests and answers are lines of JSON."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `end`
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_CHILD)],  # -P: files beside it shadow no module
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                cwd=folder,
                env=_environment(folder),
            )
        except OSError as error:
            self._said.close()
            raise ConfigError(
                "databend.folder",
                f"{folder}: {error.strerror or error}",
                fix="Name a folder that can be made, or written to.",
                config_path="connection.url",
            ) from error
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="databend", daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def ask(self, request: Mapping[str, Any] | None, within: float) -> dict[str, Any]:
        """Return the answer to a request; None awaits what comes by itself at the start."""
        try:
            if request is not None:
                assert self._process.stdin is not None  # noqa: S101 - a pipe
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()
            line = self._answers.get(timeout=within)
        except queue.Empty:
            self.end()
            raise failing.lost(self._folder, f"no answer within {within:g} s") from None
        except OSError:
            line = b""
        if not line:
            raise failing.lost(self._folder, f"the engine ended: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """End the process; what it had not committed is undone."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._said):
            with contextlib.suppress(OSError):  # a pipe with an unread request in it
                if pipe is not None:
                    pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(b"")

    def _last_words(self) -> str:
        if self._said.closed:
            return "it was ended"
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, size - 500))
        return one_line(self._said.read().decode("utf-8", "replace")) or "it said nothing"


def _environment(folder: str) -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**passed, "DATABEND_DATA_PATH": folder, "LOG_FILE_DIR": f"{folder}/logs"}


_engines: dict[str, _Engine] = {}
_guard: Final = threading.Lock()


def _taken(folder: str) -> _Engine:
    real = str(Path(folder).resolve())
    with _guard:
        engine = _engines.setdefault(real, _Engine(real))
        engine.users += 1
    try:
        engine.start()
    except BaseException:
        _given_back(engine)
        raise
    return engine


def _given_back(engine: _Engine) -> None:
    with _guard:
        engine.users -= 1
        last = engine.users == 0
        if last:
            del _engines[engine.folder]
    if last:
        engine.end()
