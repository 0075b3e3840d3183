"""A fake of HashiCorp Vault: it answers the few calls of its HTTP API that we make, and nothing
else is Vault's.

It keeps a key-value engine of version 2 at `secret` and one of version 1 at `kv`, a database engine
that makes a password for each reader, AppRole logins, namespaces, and the errors that Vault has.
"""

from __future__ import annotations

import itertools
import json
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

ROOT = "s.root-token"
ROLE, SECRET_ID = "the-role", "the-secret-id"


@dataclass
class Asked:
    """A call that came."""

    method: str
    path: str
    namespace: str
    token: str
    body: Mapping[str, Any] = field(default_factory=dict)


class Vault:
    """`with Vault() as vault`: answers at `vault.url`; with a certificate and its key, over TLS.

    Attributes:
        secrets: What is kept, by namespace and path.
        tokens: Those that are good.
        lease: Seconds that a password of the database engine is good for.
        answer: What every call gets instead, a status and a body; None for none.
    """

    def __init__(self, certificate: tuple[Path, Path] | None = None) -> None:
        self.secrets: dict[tuple[str, str], Mapping[str, Any] | None] = {}
        self.tokens = {ROOT}
        self.lease = 60
        self.answer: tuple[int, bytes] | None = None
        self.asked: list[Asked] = []
        self._numbers = itertools.count(1)
        vault = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                vault._serve(self)

            def do_POST(self) -> None:
                vault._serve(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme, host = "http", "127.0.0.1"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            scheme, host = "https", "localhost"
        self.url = f"{scheme}://{host}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, call: BaseHTTPRequestHandler) -> None:
        length = int(call.headers.get("Content-Length") or 0)
        asked = Asked(
            call.command,
            call.path,
            call.headers.get("X-Vault-Namespace", ""),
            call.headers.get("X-Vault-Token", ""),
            json.loads(call.rfile.read(length) or b"{}"),
        )
        self.asked.append(asked)
        if self.answer is not None:
            status, body = self.answer
        elif call.headers.get("X-Vault-Request") != "true":
            status, body = 400, _errors("missing required X-Vault-Request header")
        else:
            status, document = self._answered(asked)
            body = json.dumps(document).encode()
        call.send_response(status)
        call.send_header("Content-Type", "application/json")
        call.send_header("Content-Length", str(len(body)))
        call.end_headers()
        call.wfile.write(body)

    def _answered(self, asked: Asked) -> tuple[int, Any]:
        if asked.path == "/v1/auth/approle/login":
            return self._login(asked)
        if asked.token not in self.tokens:
            return 403, {"errors": ["permission denied"]}
        path = asked.path.removeprefix("/v1/")
        if path.startswith("database/creds/"):
            made = {"username": "v-app", "password": f"made-{next(self._numbers)}"}
            return 200, {"lease_id": path, "lease_duration": self.lease, "data": made}
        place = asked.namespace, path
        if place not in self.secrets:
            return 404, {"errors": []}
        found = self.secrets[place]
        if not path.startswith("secret/data/"):
            return 200, {"lease_duration": 0, "data": found}
        metadata = {"version": 2, "deletion_time": "" if found else "2026-01-01T00:00:00Z"}
        document = {"lease_duration": 0, "data": {"data": found, "metadata": metadata}}
        return (404 if found is None else 200), document

    def _login(self, asked: Asked) -> tuple[int, Any]:
        if asked.body != {"role_id": ROLE, "secret_id": SECRET_ID}:
            return 400, {"errors": ["invalid role or secret ID"]}
        token = f"s.of-the-role-{next(self._numbers)}"
        self.tokens.add(token)
        return 200, {"auth": {"client_token": token, "lease_duration": 3600, "renewable": True}}


def _errors(*texts: str) -> bytes:
    return json.dumps({"errors": texts}).encode()
