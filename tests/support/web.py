"""A web server that a test tells what to answer."""

import gzip
import http.server
import json
import sys
import threading
from urllib.parse import parse_qsl, urlsplit

DEADLINE = 10


class Asked:
    """A request that came."""

    def __init__(self, method, path, headers, body):
        parts = urlsplit(path)
        self.method, self.path, self.headers, self.body = method, parts.path, headers, body
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))


class Reply:
    """What is answered. `cut` bytes of the body are promised and not sent; a `broken` one hangs
    (sends nothing), drops (closes) or drips (sends a byte now and then).
    """

    def __init__(self, body=b"", status=200, headers=None, *, cut=0, broken=""):
        self.headers = dict(headers or {})
        if not isinstance(body, bytes | str):
            body = json.dumps(body)
            self.headers.setdefault("Content-Type", "application/json")
        self.body = body.encode() if isinstance(body, str) else body
        self.status, self.cut, self.broken = status, cut, broken

    def gzipped(self):
        self.body = gzip.compress(self.body)
        self.headers["Content-Encoding"] = "gzip"
        return self


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves one connection for `web`."""

    protocol_version = "HTTP/1.1"
    web: "WebServer"

    def answer(self):
        size = int(self.headers.get("Content-Length") or 0)
        asked = Asked(self.command, self.path, self.headers, self.rfile.read(size))
        self.web.asked.append(asked)
        try:
            self.send(self.web.next_reply(asked))
        except ConnectionError:
            self.close_connection = True  # the other side has left, as it should

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - http.server's names

    def send(self, reply):
        if reply.broken == "hang":
            self.web.ending.wait(DEADLINE)
        self.close_connection = bool(reply.broken or reply.cut)
        if reply.broken in {"hang", "drop"}:
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.status not in {204, 304}:
            self.send_header("Content-Length", str(len(reply.body) + reply.cut))
        self.end_headers()
        while reply.broken == "drip" and not self.web.ending.wait(0.02):
            self.wfile.write(b" ")
        self.wfile.write(reply.body)

    def log_message(self, *args):
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), ConnectionError):  # the other side may leave
            super().handle_error(request, client_address)


class WebServer:
    """Serves until it is closed; `answer` is a function of a request, or a list whose last one
    stays. It listens at `address`; that of localhost goes by that name.
    """

    def __init__(self, tls=None, address="127.0.0.1"):
        self.asked = []
        self.answer = lambda asked: Reply([])
        self.ending = threading.Event()
        handler = type("Handler", (Handler,), {"web": self})
        self._server = _Server((address, 0), handler)
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        host = "localhost" if address == "127.0.0.1" else address
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def next_reply(self, asked):
        if callable(self.answer):
            return self.answer(asked)
        return self.answer.pop(0) if len(self.answer) > 1 else self.answer[0]

    def close(self):
        self.ending.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
