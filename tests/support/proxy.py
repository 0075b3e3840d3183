"""An HTTP proxy on this machine: it passes on requests, and connects for https."""

import base64
import http.client
import http.server
import select
import socket
import threading
from urllib.parse import urlsplit

DEADLINE = 10


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves one connection for `proxy`."""

    protocol_version = "HTTP/1.1"
    proxy: "ProxyServer"

    def do_CONNECT(self):
        if not self.is_let_in():
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), DEADLINE) as other:
            self.send_response(200)
            self.end_headers()
            ends = {self.connection: other, other: self.connection}
            while ready := select.select(list(ends), [], [], DEADLINE)[0]:
                for one in ready:
                    if not (data := one.recv(1 << 16)):
                        self.close_connection = True
                        return
                    ends[one].sendall(data)

    def pass_on(self):
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        if not self.is_let_in():
            return
        parts = urlsplit(self.path)
        server = http.client.HTTPConnection(parts.netloc, timeout=DEADLINE)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        headers = {n: v for n, v in self.headers.items() if not n.lower().startswith("proxy-")}
        server.request(self.command, target, body, headers)
        answer = server.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"content-length", "transfer-encoding"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        server.close()

    do_GET = do_POST = do_PUT = pass_on  # noqa: N815 - http.server's names

    def is_let_in(self):
        self.proxy.asked.append((self.command, self.path, self.headers))
        status = self.proxy.refuses
        if self.proxy.login:
            wanted = f"Basic {base64.b64encode(self.proxy.login.encode()).decode()}"
            status = status or (self.headers["Proxy-Authorization"] != wanted and 407)
        if status:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
        return not status

    def log_message(self, *args):
        pass


class ProxyServer:
    """Serves until it is closed. `asked` has the verb, the target and the headers of what came;
    `login` is `user:password` that it wants, `refuses` a status that it answers instead of asking.
    """

    def __init__(self):
        self.asked, self.login, self.refuses = [], "", 0
        handler = type("Handler", (Handler,), {"proxy": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://localhost:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
