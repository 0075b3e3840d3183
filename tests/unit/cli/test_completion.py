"""A shell asks the command itself what may come."""

import argparse
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penstock.cli.__main__ import VERBS
from penstock.cli.completion import completion_words
from penstock.cli.gateway_options import complete_connector_names, complete_worker_names
from penstock.cli.inspect import complete_stages


def completed(tmp_path, text):
    """What the command offers for a line."""
    out = tmp_path / "out"
    env = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(out),
        "COMP_LINE": text,
        "COMP_POINT": str(len(text)),
    }
    command = [sys.executable, "-m", "penstock.cli"]
    subprocess.run(command, env=env, timeout=60, check=True, capture_output=True)
    return {word.strip() for word in out.read_text().split("\n")}


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("penstock conn", {"connector"}),
        ("penstock completion ", {"bash", "zsh", "fish"}),
        ("penstock top --on", {"--once"}),
        ("penstock plugin te", {"test"}),
        ("penstock nothing", {""}),
    ],
)
def test_verbs_and_options_are_offered(tmp_path, text, offered):
    assert offered <= completed(tmp_path, text)


def test_all_verbs_are_offered(tmp_path):
    assert completed(tmp_path, "penstock ") >= VERBS.keys()


def test_a_line_with_a_quote_that_is_open_is_taken():
    assert completion_words({}) == []
    told = {"_ARGCOMPLETE": "1", "COMP_LINE": "penstock run 'a b"}
    assert completion_words(told) == ["penstock", "run", "'a", "b"]
    assert completion_words({"_ARGCOMPLETE": "1"}) == [""]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_names_the_command(shell):
    command = [sys.executable, "-m", "penstock.cli", "completion", shell]
    done = subprocess.run(command, timeout=60, check=True, capture_output=True, text=True)
    assert "penstock" in done.stdout
    assert "_ARGCOMPLETE" in done.stdout


@contextmanager
def answering(body):
    """Answer whatever is asked; yields what commands are told of the server."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield argparse.Namespace(server=f"http://127.0.0.1:{server.server_port}", ca="")
        server.shutdown()


def test_stages_are_those_of_the_connector():
    with answering(b'{"transforms": "keep, read"}') as asked:
        asked.connector = "orders"
        assert complete_stages("", asked) == ["read", "keep", "transforms.read", "transformed"]
        assert complete_stages("k", asked) == ["keep"]
    for nobody in (argparse.Namespace(), argparse.Namespace(server="http://127.0.0.1:1", ca="")):
        assert complete_stages("", nobody) == ["read", "transformed"]


def test_names_of_connectors_are_asked_of_the_gateway():
    with answering(b'["orders", "orders-old", "users"]') as asked:
        assert complete_connector_names("ord", asked) == ["orders", "orders-old"]
    assert (
        complete_connector_names("ord", argparse.Namespace(server="http://127.0.0.1:1", ca=""))
        == []
    )
    assert complete_connector_names("ord", argparse.Namespace()) == []


def test_names_of_workers_are_asked_of_the_gateway():
    with answering(b'{"workers": [{"name": "w1"}, {"name": "v2"}], "leader": "h:1"}') as asked:
        assert complete_worker_names("w", asked) == ["w1"]
        assert complete_worker_names("", asked) == ["w1", "v2"]
    assert complete_worker_names("", argparse.Namespace()) == []


@pytest.mark.parametrize("verb", ["drain", "undrain"])
def test_a_shell_completes_the_worker_of_a_verb(tmp_path, verb, monkeypatch):
    with answering(b'{"workers": [{"name": "w1"}, {"name": "w2"}]}') as asked:
        monkeypatch.setenv("PENSTOCK_SERVER", asked.server)
        assert completed(tmp_path, f"penstock workers {verb} ") >= {"w1", "w2"}
