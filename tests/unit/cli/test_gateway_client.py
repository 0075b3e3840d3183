"""Answers of a gateway as errors, and as tables."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from penstock.cli.__main__ import main
from penstock.cli.doctor import available_memory, check_java_version
from penstock.cli.gateway_client import GatewayClient, error_of_response, url_path
from penstock.cli.output import cell_text, print_document, print_table, print_value
from penstock.model.config_def import CombinedError
from penstock.model.errors import AuthError, ConfigError, InternalError, RetriableError


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, ConfigError), (404, ConfigError), (409, ConfigError), (401, AuthError), (403, AuthError),
     (500, InternalError), (503, RetriableError), (502, RetriableError), (429, RetriableError)],
)  # fmt: skip
def test_an_answer_is_an_error_of_its_class(status, kind):
    body = {"error_code": status, "message": "It broke. Mend it.", "code": "a.b", "fix": "Mend it."}
    error = error_of_response(status, json.dumps(body))
    assert type(error) is kind
    assert (error.code, error.diagnostic.message, error.diagnostic.fix) == (
        "a.b",
        "It broke.",
        "Mend it.",
    )


@pytest.mark.parametrize("body", ["", "<html>", "[]", '{"error": 1}'])
def test_what_another_program_answers_is_told_so(body):
    assert error_of_response(502, body).code == "server.foreign"


def test_a_configuration_is_told_all_that_is_wrong_with_it():
    wrong = [
        {"code": f"config.{n}", "message": n, "config_path": n, "fix": f"Mend {n}."} for n in "ab"
    ]
    body = {"error_code": 400, "message": "…", "code": "config.invalid", "errors": wrong}
    error = error_of_response(400, json.dumps(body))
    assert isinstance(error, CombinedError)
    assert [(e.code, e.diagnostic.config_path, e.diagnostic.fix) for e in error.errors] == [
        ("config.a", "a", "Mend a."),
        ("config.b", "b", "Mend b."),
    ]


def test_a_conflict_that_ends_by_itself_is_no_mistake():
    body = json.dumps({"error_code": 409, "message": "m", "code": "scheduler.not_leader"})
    assert isinstance(error_of_response(409, body), RetriableError)


class Foreign(BaseHTTPRequestHandler):
    """What a gateway's address may lead to."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status, body = {
            "/html": (200, b"<html>welcome</html>"),
            "/login": (302, b""),
            "/cut": (200, b'{"a": 1}\n{"a": '),
            "/kafka": (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'),
        }[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture(scope="module")
def foreign():
    with ThreadingHTTPServer(("127.0.0.1", 0), Foreign) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Recording(BaseHTTPRequestHandler):
    """A gateway without connectors, which notes what it is asked."""

    asked: list[str]

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append(f"{self.command} {self.path}")
        new = self.command == "POST"
        told = {"name": "one", "type": "source"} if new else {
            "error_code": 404, "message": "no such connector", "code": "config.not_found",
        }  # fmt: skip
        body = json.dumps(told).encode()
        self.send_response(201 if new else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer()

    def do_POST(self):
        self.answer()

    def log_message(self, *_):
        """Say nothing."""


def test_a_connector_is_put_without_a_look_at_all_others(tmp_path):
    file = tmp_path / "one.yaml"
    file.write_text("name: one\nconnector.class: verifiable-source\nstate: stopped\n")
    Recording.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Recording) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        assert main(["connector", "put", str(file), "--server", url]) == 0
        server.shutdown()
    assert Recording.asked == ["GET /connectors/one/config", "POST /connectors"]


@pytest.mark.parametrize("where", ["/html", "/login", "/cut", "/kafka"])
def test_what_is_no_gateway_is_told_with_the_way_out(foreign, where):
    with GatewayClient(foreign) as server:
        for ask in (server.get, lambda at: list(server.stream("GET", at))):
            with pytest.raises(ConfigError) as caught:
                ask(where)
            assert caught.value.code in {"server.foreign", "server.refused"}
            assert "--server" in caught.value.diagnostic.fix


def test_names_are_parts_of_paths():
    assert url_path("connectors", "a/b c", "status") == "/connectors/a%2Fb%20c/status"


@pytest.mark.parametrize(
    "url",
    ["", "host:8083", "ftp://host", "http://", "http://host:abc", "http://[::1", "http://h:0"],
)
def test_what_is_no_url_is_refused(url):
    with pytest.raises(ConfigError, match=r"server\.url"):
        GatewayClient(url)


def test_a_token_that_none_can_be_is_refused():
    with pytest.raises(ConfigError, match=r"server\.credential"):
        GatewayClient("http://host", "tökën")


def test_nobody_there_is_told_with_the_way_out():
    with GatewayClient("http://127.0.0.1:1") as server, pytest.raises(RetriableError) as caught:
        server.get("/")
    assert caught.value.code == "server.unreachable"
    assert "--server" in caught.value.diagnostic.fix


def test_control_characters_cannot_reach_the_terminal():
    assert "\x1b" not in cell_text("a\x1b[2Jb")
    assert cell_text(None) == "-"
    assert (cell_text(True), cell_text([1, "a"]), cell_text({"a": 1})) == ("yes", "1, a", '{"a":1}')


WIDE = "jdbc:postgresql://database.example:5432/orders?" + "x" * 1500


@pytest.mark.parametrize("terminal", [True, False])
def test_a_table_changes_and_cuts_nothing(capsys, monkeypatch, terminal):
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    values = ("1:100:2", "fe80:a:b", "[config.missing] no file", "a [/x] b", "[red]x", WIDE)
    print_table([{"a\x1b[31mX": value} for value in values])
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    for value in values:
        assert value in shown.replace("\n", "").replace(" \n", "") or value in re.sub(
            r"\s*\n\s*", "", shown
        )
    if not terminal:
        assert all(line == line.rstrip() for line in shown.splitlines())


def test_documents_one_after_another(capsys):
    for output in ("json", "yaml"):
        for n in range(2):
            print_document(output, {"n": n})
    out = capsys.readouterr().out
    lines, rest = out.split("---\n", 1)
    assert [json.loads(line)["n"] for line in lines.splitlines()] == [0, 1]
    assert [one["n"] for one in yaml.safe_load_all(rest)] == [0, 1]


def test_forms_of_an_answer(capsys):
    value = [{"name": "ü", "n": 1}]
    print_value("json", value)
    assert json.loads(capsys.readouterr().out) == value
    print_value("yaml", value)
    assert capsys.readouterr().out == "- name: ü\n  n: 1\n"
    print_value("table", value, value)
    assert capsys.readouterr().out.split() == ["name", "n", "ü", "1"]


@pytest.mark.parametrize(
    ("said", "ok"),
    [
        ('openjdk version "17.0.15" 2025-04-15', True),
        ('openjdk version "21" 2023', True),
        ('java version "1.8.0_202"', False),
        ('openjdk version "11.0.2"', False),
        ("no java here", False),
    ],
)
def test_versions_of_java(said, ok):
    assert check_java_version("/usr/bin/java", said).ok is ok


def test_memory_that_is_cached_is_free():
    meminfo = "MemTotal: 32000000 kB\nMemFree: 100 kB\nMemAvailable: 24000000 kB\n"
    assert available_memory(meminfo) == 24_000_000 << 10
