"""A Databend server for tests: its query API in front of the embedded engine.

    with DatabendServer() as server:
        server.read("SELECT * FROM t")                     # an Arrow table
        server.fault("COMMIT", "after", "drop", times=1)   # run it, and cut the connection
        server.kill(); server.start()

There is no package of Databend's server. Its engine is one (`databend`), the same code, and what
the driver speaks is HTTP with JSON: https://docs.databend.com/developer/apis/http. The front runs
in a process of its own: the engine takes one folder for a process. It knows one user.

    python -P tests/support/databend.py serve FOLDER PORT
    python -P tests/support/databend.py read FOLDER SQL    # prints an Arrow stream
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

USER = "penstock"
PASSWORD = "pa%ss/w:o@rd"
VERSION = "1.2.453"
_STAGE = "_data/stage/user/root"
_CODE = re.compile(r"Code: (\d+), Text = (.*)", re.DOTALL)
_TYPES = re.compile(r"data_type: (.*?), computed_expr")


# ── the test's side ──────────────────────────────────────────────────────────────────────────────


class DatabendServer:
    """One server. Leaving the `with` block kills it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="psd-"))
        from support.processes import free_ports  # the server's side has no such package

        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "", port: int | None = None) -> str:
        """Return a JDBC URL."""
        return f"jdbc:databend://127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        """Start it, and wait until it answers. It ends with the thread that called this."""
        from support.processes import DIES_WITH_US  # the server's side has no such package

        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*DIES_WITH_US, *_command("serve", str(self.folder / "d"), str(self.port))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=_environment(str(self.folder / "d")),
            )
        end = time.monotonic() + 60
        while time.monotonic() < end and self._process.poll() is None:
            try:
                self._ask("/test/trace")
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise RuntimeError((self.folder / "log").read_text(errors="replace")[-3000:])

    def wait(self) -> None:
        """Wait until it has ended by itself."""
        assert self._process is not None
        self._process.wait(60)

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def read(self, sql: str) -> pa.Table:
        """Run a query in a session of its own; returns an Arrow table."""
        return pa.ipc.open_stream(self._ask("/test/read", sql.encode())).read_all()

    def fault(self, statement: str, when: str, what: str, times: int = 1) -> None:
        """Do something when a statement that begins so comes: before it runs, or after.

        `what`: `drop` the connection, `die`, `pass` it over, or an error `2009`.
        """
        order = {"statement": statement, "when": when, "what": what, "times": times}
        self._ask("/test/fault", json.dumps(order).encode())

    def clear(self) -> None:
        """Forget the faults that did not happen."""
        self._ask("/test/clear", b"")

    def trace(self) -> list[str]:
        """Return the statements that came, in their order."""
        statements: list[str] = json.loads(self._ask("/test/trace"))
        return statements

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _ask(self, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body)
        with urllib.request.urlopen(request, timeout=60) as answer:
            data: bytes = answer.read()
        return data


def read_folder(folder: Path, sql: str) -> pa.Table:
    """Run a query on a folder that nobody uses now; returns an Arrow table."""
    done = subprocess.run(
        _command("read", str(folder), sql),
        env=_environment(str(folder)),
        cwd=folder,
        capture_output=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode()[-2000:])
    return pa.ipc.open_stream(done.stdout).read_all()


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", __file__, *arguments]


def _environment(folder: str) -> dict[str, str]:
    return {
        **os.environ,
        "DATABEND_DATA_PATH": folder,
        "LOG_FILE_DIR": f"{folder}/logs",
    }


# ── the server's side ────────────────────────────────────────────────────────────────────────────


class Engine:
    """The embedded engine, with as many sessions as are asked for."""

    def __init__(self) -> None:
        from databend import SessionContext

        self.new = lambda: SessionContext(tenant="default")
        self.lock = threading.RLock()
        self.sessions: dict[str, Session] = {}
        self.faults: list[dict[str, Any]] = []
        self.trace: list[str] = []

    def session(self, state: dict[str, Any]) -> Session:
        """Return the session that a client's state names; its content is ours."""
        key = (state.get("internal") or {}).get("sid") or uuid.uuid4().hex
        session = self.sessions.setdefault(key, Session(key, self.new()))
        for name, value in (state.get("settings") or {}).items():
            if session.settings.get(name) != value:
                session.context.sql(f"SET {name} = '{value}'").collect()
                session.settings[name] = value
        return session

    def fault(self, sql: str, when: str) -> str:
        """Return what is to happen now; empty for nothing."""
        for fault in self.faults:
            begins = sql.lstrip().lower().startswith(fault["statement"].lower())
            if fault["times"] and fault["when"] == when and begins:
                fault["times"] -= 1
                return str(fault["what"])
        return ""

    def run(self, session: Session, sql: str) -> tuple[list[tuple[str, str]], list[list[Any]]]:
        """Run a statement, as a server keeps track of transactions."""
        words = re.sub(r"^\s+", "", sql).split(None, 1)
        word = words[0].lower().rstrip(";") if words else ""
        if session.state == "Fail":
            if word not in {"commit", "rollback"}:
                raise RuntimeError("Code: 4002, Text = Current transaction is aborted")
            session.state = "AutoCommit"
            return [], []
        try:
            answer = _rows(session.context, sql)
        except BaseException:
            if session.state == "Active":
                session.state = "Fail"
                session.context.sql("ROLLBACK").collect()
            raise
        session.state = {"begin": "Active", "commit": "AutoCommit", "rollback": "AutoCommit"}.get(
            word, session.state
        )
        return answer


class Session:
    """A client's session."""

    def __init__(self, key: str, context: Any) -> None:
        self.key, self.context = key, context
        self.settings: dict[str, str] = {}
        self.state = "AutoCommit"

    def told(self) -> dict[str, Any]:
        """Return what the client keeps, and sends back."""
        return {
            "database": "default",
            "settings": self.settings,
            "txn_state": self.state,
            "need_sticky": self.state == "Active",
            "internal": {"sid": self.key},
        }


def _rows(context: Any, sql: str) -> tuple[list[tuple[str, str]], list[list[Any]]]:
    """Return columns with their types, and rows as the API writes their values."""
    frame = context.sql(sql)
    kinds = [_kind(text) for text in _TYPES.findall(str(frame.schema()))]
    if not kinds or re.match(r"\s*merge\b", sql, re.IGNORECASE):
        frame.collect()  # asking for Arrow ends the process where there are no rows
        return [], []
    batches = frame.to_py_arrow()
    names = batches[0].schema.names if batches else [f"c{n}" for n in range(len(kinds))]
    rows = [
        [_text(value) for value in row.values()] for batch in batches for row in batch.to_pylist()
    ]
    return list(zip(names, kinds, strict=True)), rows


def _kind(text: str) -> str:
    return re.sub(r"Number\((\w+)\)", r"\1", text)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ", timespec="microseconds")
    return str(value)


def _error(error: BaseException) -> dict[str, Any]:
    match = _CODE.search(str(error))
    if match is None:
        return {"code": 1001, "message": str(error)[:500], "detail": ""}
    said = re.split(r"\n\s*0: ", match[2])[0].strip()
    return {"code": int(match[1]), "message": said, "detail": ""}


class Front(ThreadingHTTPServer):
    """The HTTP server."""

    daemon_threads = True

    def __init__(self, port: int, folder: Path) -> None:
        self.engine = Engine()
        self.folder = folder
        self.answers: dict[str, dict[str, Any]] = {}
        super().__init__(("127.0.0.1", port), Handler)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits for an acknowledgement
    wbufsize = -1
    server: Front

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._do()

    def do_POST(self) -> None:
        self._do()

    def do_PUT(self) -> None:
        self._do()

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        if path.startswith("/test/"):
            self._test(path, body)
        elif not self._knows_user():
            self._reply(401, {"error": {"code": 5100, "message": "wrong user or password"}})
        elif path == "/v1/session/login":
            session = {"version": VERSION, "session_id": uuid.uuid4().hex}
            self._reply(200, session, {"X-DATABEND-SESSION-ID": session["session_id"]})
        elif path == "/v1/upload_to_stage":
            self._upload(body)
        elif path == "/v1/query":
            self._query(json.loads(body))
        elif match := re.fullmatch(r"/v1/query/(\w+)/(final|kill|page/\d+)", path):
            answer = {**self.server.answers.pop(match[1], {}), "data": [], "next_uri": None}
            self._reply(200, answer)
        else:
            self._reply(200, {"queries_to_remove": []})

    def _knows_user(self) -> bool:
        kind, _, value = (self.headers.get("authorization") or "").partition(" ")
        wanted = f"{USER}:{PASSWORD}".encode()
        return kind == "Basic" and base64.b64decode(value) == wanted

    def _test(self, path: str, body: bytes) -> None:
        engine = self.server.engine
        if path == "/test/read":
            with engine.lock:
                self._reply_bytes(_arrow(engine.new(), body.decode()))
        elif path == "/test/fault":
            engine.faults.append(json.loads(body))
            self._reply(200, {})
        elif path == "/test/clear":
            engine.faults.clear()
            self._reply(200, {})
        else:
            self._reply(200, engine.trace)

    def _upload(self, body: bytes) -> None:
        head = b"Content-Type: " + self.headers["content-type"].encode() + b"\r\n\r\n"
        for part in BytesParser().parsebytes(head + body).get_payload():
            path = self.server.folder / _STAGE / (part.get_filename() or "")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(part.get_payload(decode=True))
        self.server.engine.trace.append("UPLOAD")
        if self.server.engine.fault("UPLOAD", "after") == "drop":
            return self._drop()
        return self._reply(200, {"id": uuid.uuid4().hex, "state": "SUCCESS", "files": []})

    def _query(self, request: dict[str, Any]) -> None:
        engine, sql = self.server.engine, request["sql"]
        number = self.headers.get("x-databend-query-id") or uuid.uuid4().hex
        error: dict[str, Any] | None = None
        columns: list[tuple[str, str]] = []
        rows: list[list[Any]] = []
        with engine.lock:
            engine.trace.append(sql)
            session = engine.session(request.get("session") or {})
            what = engine.fault(sql, "before")
            if what == "die":
                os._exit(1)
            if what == "drop":
                return self._drop()
            if what.isdigit():
                error = {"code": int(what), "message": "as the test wanted it", "detail": ""}
            elif what != "pass":
                try:
                    columns, rows = engine.run(session, sql)
                except BaseException as caught:  # noqa: BLE001 - a panic is no Exception
                    error = _error(caught)
            what = engine.fault(sql, "after")
        if what == "die":
            os._exit(1)
        if what == "drop":
            return self._drop()
        answer = self._answer(number, session, columns, rows, error)
        self.server.answers[number] = answer
        return self._reply(200, answer)

    def _answer(
        self,
        number: str,
        session: Session,
        columns: list[tuple[str, str]],
        rows: list[list[Any]],
        error: dict[str, Any] | None,
    ) -> dict[str, Any]:
        uri = f"/v1/query/{number}"
        done = {"rows": 0, "bytes": 0}
        return {
            "id": number,
            "session_id": session.key,
            "node_id": "front",
            "session": session.told(),
            "schema": [{"name": name, "type": kind} for name, kind in columns],
            "data": rows,
            "state": "Failed" if error else "Succeeded",
            "error": error,
            "warnings": [],
            "affect": None,
            "result_timeout_secs": 60,
            "settings": {"timezone": "UTC"},
            "stats": {
                "scan_progress": done,
                "write_progress": done,
                "result_progress": done,
                "total_scan": done,
                "running_time_ms": 1.0,
            },
            "next_uri": None if error else f"{uri}/final",
            "final_uri": f"{uri}/final",
            "stats_uri": uri,
            "kill_uri": f"{uri}/kill",
        }

    def _drop(self) -> None:
        """Cut the connection without an answer."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _reply(self, code: int, answer: Any, headers: dict[str, str] | None = None) -> None:
        self._reply_bytes(json.dumps(answer).encode(), code, headers)

    def _reply_bytes(
        self, data: bytes, code: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _arrow(context: Any, sql: str) -> bytes:
    batches = context.sql(sql).to_py_arrow()
    sink = pa.BufferOutputStream()
    schema = batches[0].schema if batches else pa.schema([])
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def main() -> None:
    """Serve, or read."""
    verb, folder, argument = sys.argv[1:]
    if verb == "serve":
        Front(int(argument), Path(folder)).serve_forever()
    else:
        answers = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)  # what the engine prints is no answer
        with answers:
            answers.write(_arrow(Engine().new(), argument))
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
