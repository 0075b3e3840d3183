"""Waiting for a worker to be empty."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penstock.cli import workers
from penstock.cli.__main__ import main


class Leaving(BaseHTTPRequestHandler):
    """A gateway of a cluster in which a worker lets go of a task whenever it is asked for."""

    left: list[int]

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.dumps({"tasks_left": self.left.pop() if self.left else 0}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def drain(monkeypatch):
    """Drain a worker which has so many tasks at each answer, with more words."""
    monkeypatch.setattr(workers, "POLL_INTERVAL_S", 0.01)
    with ThreadingHTTPServer(("127.0.0.1", 0), Leaving) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"

        def run(*words: str, left: list[int]):
            Leaving.left = left[::-1]
            return main(["workers", "drain", "w1", *words, "--server", url, "-o", "json"])

        yield run
        server.shutdown()


def test_the_wait_for_a_worker_ends_when_it_is_empty(drain, capsys):
    assert drain("--wait", left=[3, 2, 1]) == 0
    assert json.loads(capsys.readouterr().out) == {"tasks_left": 0}


def test_no_wait_tells_how_many_are_left(drain, capsys):
    assert drain(left=[3, 2]) == 0
    assert json.loads(capsys.readouterr().out) == {"tasks_left": 3}


def test_a_worker_that_does_not_get_empty_in_time_is_told(drain, capsys):
    assert drain("--wait", "--within", "0", left=[2] * 99) == 1
    said = capsys.readouterr().err
    assert "[worker.not_empty] w1 still has 2 tasks after 0 s" in said
    assert "penstock workers undrain w1" in said
