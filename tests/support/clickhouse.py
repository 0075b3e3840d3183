"""A ClickHouse server for tests: its HTTP interface in front of the embedded engine.

    with ClickHouseServer() as server:
        server.read("SELECT * FROM d.t")                   # an Arrow table
        server.fault("INSERT", "after", "drop", times=1)   # run it, and cut the connection
        server.kill(); server.start()

There is no package of a current server. Its engine is one (`chdb`), the same code, and what the
connector speaks is HTTP: https://clickhouse.com/docs/interfaces/http. The front speaks the part of
it that has queries in the URL or the body, settings and databases in the URL, logins in headers or
the URL, gzip, and errors with their number in a header. It runs in a process of its own: the engine
takes one folder for a process, and here one statement at a time. It knows one user.

    python -P tests/support/clickhouse.py FOLDER PORT [CERTIFICATE KEY]
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa

USER = "penstock"
PASSWORD = "pa%ss/w:o@rd"
_CODE = re.compile(r"Code: (\d+)\.")
_INSERT = re.compile(r"(INSERT INTO .*) FORMAT (\w+)\s*", re.DOTALL)
_SETTING = re.compile(r"[a-z0-9_]+")
_FRONT = {"wait_end_of_query", "default_format", "query", "database", "user", "password",
          "select_sequential_consistency", "query_id", "session_id"}  # fmt: skip
"""Parameters that are the front's own, or mean nothing without replicas."""


# ── the test's side ──────────────────────────────────────────────────────────────────────────────


class ClickHouseServer:
    """One server. Leaving the `with` block kills it."""

    def __init__(self, certificate: Path | None = None, key: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="psc-"))
        from support.processes import free_ports  # the server's side has no such package

        self.port, self._tests = free_ports(2)
        self._tls = [str(certificate), str(key)] if certificate else []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers. It ends with the thread that called this."""
        from support.processes import DIES_WITH_US  # the server's side has no such package

        command = [sys.executable, "-P", __file__, str(self.folder / "d")]
        ports = [str(self.port), str(self._tests)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*DIES_WITH_US, *command, *ports, *self._tls],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        end = time.monotonic() + 60
        while time.monotonic() < end and self._process.poll() is None:
            try:
                self._ask("/trace")
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise RuntimeError((self.folder / "log").read_text(errors="replace")[-3000:])

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def wait(self) -> None:
        """Wait until it has ended by itself."""
        assert self._process is not None
        self._process.wait(60)

    def read(self, sql: str) -> pa.Table:
        """Run a statement; returns an Arrow table, texts as texts."""
        data = self._ask("/read", sql.encode())
        return pa.ipc.open_stream(data).read_all() if data else pa.table({})

    def fault(self, statement: str, when: str, what: str, times: int = 1) -> None:
        """Do something when a statement that has a text in it (`^text`: begins with it) comes:
        before it runs, or after.

        `what`: `drop` the connection, `die`, an error `252`, a status `http 503`, or an answer
        `page` that is not ClickHouse's, or a redirect `lead http://…`.
        """
        order = {"statement": statement, "when": when, "what": what, "times": times}
        self._ask("/fault", json.dumps(order).encode())

    def clear(self) -> None:
        """Forget the faults that did not happen, and the password that was changed."""
        self._ask("/clear", b"")

    def expire_password(self) -> None:
        """Refuse the password from now on."""
        self._ask("/expire", b"")

    def trace(self) -> list[str]:
        """Return the statements that came, in their order."""
        statements: list[str] = json.loads(self._ask("/trace"))
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
        request = urllib.request.Request(f"http://127.0.0.1:{self._tests}{path}", body)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                data: bytes = answer.read()
        except urllib.error.HTTPError as error:
            raise ValueError(error.read().decode()) from None
        return data


# ── the server's side ────────────────────────────────────────────────────────────────────────────


class Engine:
    """The embedded engine, and what tests want of it."""

    def __init__(self, folder: Path) -> None:
        from chdb.session import Session

        self.folder = folder
        self.session = Session(str(folder))
        self.lock = threading.RLock()
        self.faults: list[dict[str, Any]] = []
        self.trace: list[str] = []
        self.password = PASSWORD
        self.session.query("CREATE DATABASE IF NOT EXISTS default ENGINE = Atomic")

    def fault(self, sql: str, when: str) -> str:
        """Return what is to happen now; empty for nothing."""
        for fault in self.faults:
            named = fault["statement"]
            hit = sql.startswith(named[1:]) if named.startswith("^") else named in sql
            if fault["times"] and fault["when"] == when and hit:
                fault["times"] -= 1
                return str(fault["what"])
        return ""

    def run(self, sql: str, body: bytes, database: str, settings: dict[str, str]) -> bytes:
        """Run a statement with its settings, as a server does for one request."""
        given = {name: value for name, value in settings.items() if name not in _FRONT}
        unknown = next((name for name in given if not _SETTING.fullmatch(name)), "")
        if unknown:
            raise RuntimeError(f"Code: 115. DB::Exception: Unknown setting '{unknown}'.")
        quoted = database.replace("`", "``")
        try:
            self.session.query(f"USE `{quoted}`")
            for name, value in given.items():
                escaped = value.replace("'", "\\'")
                self.session.query(f"SET {name} = '{escaped}'")
            return self._answer(sql, body)
        finally:
            for name in given:
                self._default(name)

    def _default(self, name: str) -> None:
        try:
            self.session.query(f"SET {name} = DEFAULT")
        except Exception:  # noqa: BLE001 - there is no such setting, as was said before
            return

    def _answer(self, sql: str, body: bytes) -> bytes:
        match = _INSERT.fullmatch(sql)
        if match is None or not body:
            return bytes(self.session.query((sql + body.decode()) if body else sql, "TSV").bytes())
        file = self.folder.with_name("body")
        file.write_bytes(body)
        self.session.query(f"{match[1]} FROM INFILE '{file}' FORMAT {match[2]}")
        return b""

    def read(self, sql: str) -> bytes:
        """Return the rows of a query as a stream of Arrow."""
        self.session.query("SET output_format_arrow_string_as_string = 1")
        return bytes(self.session.query(sql, "ArrowStream").bytes())


class Tests(BaseHTTPRequestHandler):
    """What tests ask, at a port of its own."""

    engine: Engine

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._do()

    def do_POST(self) -> None:
        self._do()

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        engine = self.engine
        answer, status = b"", 200
        with engine.lock:
            match self.path:
                case "/read":
                    try:
                        answer = engine.read(body.decode())
                    except Exception as error:  # noqa: BLE001 - whatever the engine says
                        answer, status = str(error).encode(), 500
                case "/fault":
                    engine.faults.append(json.loads(body))
                case "/clear":
                    engine.faults.clear()
                    engine.password = PASSWORD
                case "/expire":
                    engine.password = ""
                case _:
                    answer = json.dumps(engine.trace).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


class Handler(BaseHTTPRequestHandler):
    """One request of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits for an acknowledgement
    wbufsize = -1
    engine: Engine

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._do()

    def do_POST(self) -> None:
        self._do()

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        parameters = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        sql = parameters.get("query", "") or body.decode()
        data = body if parameters.get("query") else b""
        if not self._knows_user(parameters):
            said = "Code: 516. DB::Exception: penstock: Authentication failed: wrong password"
            return self._failed(said, 516, 403)
        engine = self.engine
        failure = answer = None
        with engine.lock:
            engine.trace.append(sql)
            what = engine.fault(sql, "before")
            if not what:
                database = self.headers.get("x-clickhouse-database")
                database = parameters.get("database") or database or "default"
                try:
                    answer = engine.run(sql, data, database, parameters)
                except Exception as error:  # noqa: BLE001 - whatever the engine says
                    failure = str(error)
                what = engine.fault(sql, "after")
        if what:
            return self._misbehave(what)
        if failure is not None:
            match = _CODE.search(failure)
            return self._failed(failure, int(match[1]) if match else 1002, 500)
        return self._reply(200, answer or b"", {"X-ClickHouse-Query-Id": "front"})

    def _misbehave(self, what: str) -> None:
        word, _, rest = what.partition(" ")
        if word == "die":
            os._exit(1)
        if word == "drop":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif word == "page":
            self._reply(200, b"<html>Log in to the hotel's network</html>", {})
        elif word == "http":
            self._reply(int(rest), b"later", {})
        elif word == "lead":
            self._reply(307, b"", {"Location": rest})
        else:
            self._failed(f"Code: {word}. DB::Exception: as the test wanted it", int(word), 500)

    def _knows_user(self, parameters: dict[str, str]) -> bool:
        user = self.headers.get("x-clickhouse-user") or parameters.get("user", "default")
        password = self.headers.get("x-clickhouse-key") or parameters.get("password", "")
        return user == USER and password == self.engine.password

    def _failed(self, said: str, code: int, status: int) -> None:
        body = f"{said} (version 26.9.2.1 (official build))\n".encode()
        self._reply(status, body, {"X-ClickHouse-Exception-Code": str(code)})

    def _reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        if "gzip" in self.headers.get("accept-encoding", ""):
            body, headers = gzip.compress(body), {**headers, "Content-Encoding": "gzip"}
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def main(folder: str, port: str, tests: str, *tls: str) -> None:
    """Serve until the process is killed."""
    Tests.engine = Handler.engine = Engine(Path(folder))
    front = ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    front.daemon_threads = True
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        front.socket = context.wrap_socket(front.socket, server_side=True)
    threading.Thread(target=front.serve_forever, daemon=True).start()
    ThreadingHTTPServer(("127.0.0.1", int(tests)), Tests).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
