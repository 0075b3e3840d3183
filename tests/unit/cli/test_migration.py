"""What a migration from Kafka Connect and back plans, does, and refuses."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from penstock.cli.__main__ import main
from penstock.cli.kafka_connect import KafkaConnectClient, RemoteConnector
from penstock.cli.kafka_connect_offsets import TranslatedOffset
from penstock.cli.migration_plan import Options, Target, added_keys, plan_export, plan_import
from penstock.model.errors import AuthError, ConfigError, InternalError, RetriableError

URL = "http://connect:8083"
THERE = RemoteConnector("lines", "source", {"connector.class": "F", "file": "/in"}, "STOPPED", 0)
BEFORE = {"partition": {"filename": "/in"}, "offset": {"position": 3}}
AFTER = {"partition": {"file": "/in"}, "offset": {"position": 3}}
EXACT = TranslatedOffset(BEFORE, AFTER)
ADDED = {"topics.backend": "kafka"}
STOPPED_HERE = Target(exists=True, state="STOPPED")
RUNS_HERE = Target(exists=True, state="RUNNING")
MOVED = {**AFTER, "offset": {"position": 9}}


def plan(there=THERE, offsets=(EXACT,), here=None, options=None):
    here, options = here or Target(), options or Options()
    return plan_import(there, "file-source", ADDED, offsets, here, options, URL)


@pytest.mark.parametrize(
    ("here", "options", "steps"),
    [
        (Target(), Options(), ["create", "offsets"]),
        (Target(), Options(start=True), ["create", "offsets", "start"]),
        (Target(), Options(without_offsets=True), ["create"]),
        (STOPPED_HERE, Options(), ["offsets"]),  # it broke off after the creation
        (replace(STOPPED_HERE, offsets=[AFTER]), Options(), []),
        (replace(STOPPED_HERE, offsets=[AFTER]), Options(start=True), ["start"]),
        (replace(RUNS_HERE, offsets=[MOVED]), Options(start=True), []),  # it went on since
    ],
)
def test_steps_of_an_import(here, options, steps):
    move = plan(here=here, options=options)
    assert (move.steps, move.refusals) == (steps, [])
    assert move.config == {**THERE.config, **ADDED}


def error(code, **more):
    return {"severity": "error", "code": code, "message": "m", **more}


@pytest.mark.parametrize(
    ("change", "options", "code"),
    [
        ({"here": Target(findings=[error("config.missing")])}, Options(), "config.missing"),
        (
            {"here": replace(STOPPED_HERE, differences=[{"key": "file"}])},
            Options(),
            "migration.other_configuration",
        ),
        ({"here": replace(STOPPED_HERE, offsets=[MOVED])}, Options(), "migration.other_offsets"),
        ({"offsets": [TranslatedOffset(BEFORE, loss="x")]}, Options(), "migration.offsets_lost"),
        (
            {"offsets": [TranslatedOffset(BEFORE, AFTER, repeats="x")]},
            Options(),
            "migration.rows_again",
        ),
        (
            {"there": replace(THERE, config={**THERE.config, "password": "****"})},
            Options(),
            "migration.masked",
        ),
        (
            {"there": replace(THERE, state="RUNNING", tasks=1), "here": RUNS_HERE},
            Options(),
            "migration.runs_twice",
        ),
    ],
)
def test_what_an_import_refuses(change, options, code):
    move = plan(**change, options=options)
    assert [one.code for one in move.refusals] == [code]
    assert not move.steps
    assert not move.first, "nothing is to be stopped that does not move"


def test_what_a_user_may_allow():
    again = TranslatedOffset(BEFORE, AFTER, repeats="x")
    assert plan(offsets=[again], options=Options(allow_repeats=True)).translated == [AFTER]
    lost = TranslatedOffset(BEFORE, loss="x")
    move = plan(offsets=[lost], options=Options(without_offsets=True))
    assert (move.steps, move.translated) == (["create"], [])


@pytest.mark.parametrize(("state", "tasks"), [("RUNNING", 1), ("PAUSED", 1), ("STOPPED", 1)])
def test_a_connector_that_may_still_move_rows_is_stopped_first(state, tasks):
    move = plan(there=replace(THERE, state=state, tasks=tasks))
    assert move.first == f"curl -X PUT {URL}/connectors/lines/stop"
    assert plan().first == ""


def test_keys_that_are_added():
    assert added_keys("file-source", {}) == {"topics.backend": "kafka"}
    assert added_keys("file-source", {"topics.backend": "embedded"}) == {}
    assert added_keys("postgres-cdc", {"slot.name": "own"}) == {
        "topics.backend": "kafka",
        "publication.name": "dbz_publication",
        "output.format": "debezium",
    }
    assert added_keys("mysql-cdc", {"output.format": "penstock"}) == {"topics.backend": "kafka"}


@pytest.mark.parametrize(
    ("stored", "state", "options", "steps", "first"),
    [
        ([], "STOPPED", Options(start=True), ["offsets", "start"], ""),
        ([BEFORE], "STOPPED", Options(), [], ""),
        ([BEFORE, {"partition": {"filename": "/b"}, "offset": {}}], "STOPPED", Options(), [], ""),
        ([], "RUNNING", Options(), ["offsets"], "penstock connector stop lines"),
    ],
)
def test_steps_of_an_export(stored, state, options, steps, first):
    back = [TranslatedOffset(AFTER, BEFORE)]
    move = plan_export(THERE, "file-source", back, stored, state, options, URL)
    assert (move.steps, move.first, move.refusals) == (steps, first, [])


class Fake(BaseHTTPRequestHandler):
    """Both sides: a Kafka Connect with one file source, and a gateway that has what it was sent."""

    protocol_version = "HTTP/1.1"
    there: ClassVar[dict] = {}
    here: ClassVar[dict] = {}
    sent: ClassVar[list] = []
    busy = 0

    def answer(self, status, body=None):
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == "/":
            self.answer(200, {"version": "4.3.1", "commit": "c", "kafka_cluster_id": "abc"})
        elif path == "/connectors":
            self.answer(200, {"lines": self.there})
        elif path == "/connectors/lines/offsets" and "Authorization" in self.headers:
            self.answer(200, {"offsets": [BEFORE]})
        elif path == "/connectors/lines/offsets":
            self.answer(200, {"offsets": self.here.get("offsets", [])})
        elif path == "/wrong/":
            self.answer(200, {"status": "ok"})
        elif path == "/busy/" and Fake.busy:
            Fake.busy -= 1
            self.answer(409, {"error_code": 409, "message": "rebalance"})
        elif path == "/busy/":
            self.answer(200, {"version": "4.3.1", "kafka_cluster_id": "abc"})
        elif path == "/denied/":
            self.answer(401)
        elif path == "/old/connectors/a/offsets":
            self.answer(404, {"error_code": 404, "message": "HTTP 404 Not Found"})
        else:
            self.answer(500, {"error_code": 500, "message": f"broken: {path}"})

    def body(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def do_POST(self):
        body = self.body()
        if self.path == "/v1/connectors/compare":
            warning = {
                "severity": "warning",
                "code": "config.no_effect",
                "message": "`errors.log.enable` has no effect",
                "config_path": "errors.log.enable",
            }
            state = self.here.get("initial_state", "")
            answer = {"revision": len(self.here), "target_state": state, "differences": []}
            self.answer(200, answer | {"findings": [warning]})
            return
        self.sent.append(("POST", self.path, body))
        self.here.update(body)
        self.answer(201, {"name": "lines"})

    def do_PATCH(self):
        body = self.body()
        self.sent.append(("PATCH", self.path, body))
        self.here.update(body)
        self.answer(200, {"message": "done"})

    def do_PUT(self):
        if self.path.endswith("/validate"):
            self.body()
            self.answer(200, {"name": "file-source", "error_count": 0})
            return
        self.sent.append(("PUT", self.path, None))
        self.here["initial_state"] = "RUNNING"
        self.answer(202)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def url(monkeypatch):
    there = {
        "info": {"type": "source", "config": {"name": "lines", **THERE.config}, "tasks": []},
        "status": {"connector": {"state": "STOPPED"}, "tasks": []},
    }
    for name, value in (("there", there), ("here", {}), ("sent", []), ("busy", 0)):
        monkeypatch.setattr(Fake, name, value)
    with ThreadingHTTPServer(("127.0.0.1", 0), Fake) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("PENSTOCK_SERVER", address)
        monkeypatch.setenv("PENSTOCK_CONNECT_CREDENTIAL", "ada:secret")
        yield address
        server.shutdown()
        thread.join()


def test_a_plan_changes_nothing_and_can_be_read(url, capsys):
    assert main(["import", "kafka-connect", url]) == 0
    assert Fake.sent == []
    printed = capsys.readouterr().out
    for words in (
        "file-source",
        "create it, stopped, store offsets",
        "added: kafka",
        "`errors.log.enable` has no effect",
        '{"filename":"/in"}, {"position":3}',
        '{"file":"/in"}, {"position":3}',
        "Kafka cluster abc",
        "No converters of their own: lines",
    ):
        assert words in printed


def test_an_import_is_applied_once_and_says_so_the_second_time(url, capsys):
    command = ["import", "kafka-connect", url, "--apply", "--start", "-o", "json"]
    assert main(command) == 0
    config = {**THERE.config, **ADDED}
    assert Fake.sent == [
        ("POST", "/connectors", {"name": "lines", "config": config, "initial_state": "STOPPED"}),
        ("PATCH", "/connectors/lines/offsets", {"offsets": [AFTER]}),
        ("PUT", "/connectors/lines/resume", None),
    ]
    (first,) = json.loads(capsys.readouterr().out)["connectors"]
    assert (first["result"], first["steps"]) == ("done", ["create", "offsets", "start"])
    assert main(command) == 0
    (second,) = json.loads(capsys.readouterr().out)["connectors"]
    assert (second["result"], len(Fake.sent)) == ("nothing to do", 3)


def test_what_runs_there_is_left_alone(url, capsys):
    Fake.there["status"]["connector"]["state"] = "RUNNING"
    assert main(["import", "kafka-connect", url]) == 0
    assert main(["import", "kafka-connect", url, "--apply"]) == 2
    assert Fake.sent == []
    said = capsys.readouterr()
    assert "[migration.not_stopped] lines: " in said.err
    assert f"fix: Run: curl -X PUT {url}/connectors/lines/stop" in said.err
    assert "refused" in said.out


def test_a_name_that_nobody_has_is_refused(url, capsys):
    assert main(["import", "kafka-connect", url, "--connector", "line"]) == 2
    assert "Did you mean lines?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "kind", "code"),
    [
        ("/wrong", ConfigError, "connect.foreign"),
        ("/denied", AuthError, "connect.denied"),
        ("/broken", InternalError, "connect.failed"),
    ],
)
def test_what_is_no_kafka_connect_is_told_so(url, path, kind, code):
    with KafkaConnectClient(url + path) as client, pytest.raises(kind) as caught:
        client.server_info()
    assert caught.value.code == code


def test_a_rebalance_is_waited_for(url):
    Fake.busy = 1
    with KafkaConnectClient(f"{url}/busy") as client:
        assert client.server_info() == ("4.3.1", "abc")


def test_a_version_without_offsets_is_told_so(url):
    with (
        KafkaConnectClient(f"{url}/old") as client,
        pytest.raises(ConfigError, match=r"connect\.no_offsets"),
    ):
        client.list_offsets("a")


@pytest.mark.parametrize("wrong", ["connect:8083", "ftp://connect", "http://a:b@connect:8083"])
def test_an_address_that_is_none_is_refused_without_a_password(wrong):
    with pytest.raises(ConfigError, match=r"connect\.url") as caught:
        KafkaConnectClient(wrong)
    assert "a:b" not in str(caught.value)


def test_nobody_there_is_told():
    with (
        KafkaConnectClient("http://127.0.0.1:1") as client,
        pytest.raises(RetriableError, match=r"connect\.unreachable"),
    ):
        client.server_info()
