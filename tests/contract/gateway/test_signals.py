"""Signals to a source: by REST and by the CLI, each written once to where the source says."""

import json

import httpx
import pytest

from penstock.cli.__main__ import main


@pytest.fixture
def source(made, tmp_path):
    """The name of a source, and what was signalled to it."""
    mood = tmp_path / "mood"
    mood.write_text("")
    path = made("", "STOPPED", **{"connector.class": "moody-source"}, mood=str(mood), topic="moods")

    def signalled():
        file = tmp_path / "mood.signals"
        return [json.loads(line) for line in file.read_text().splitlines()]

    return path.rpartition("/")[2], signalled


def send(gateway, name, body):
    answer = gateway.post(f"/v1/connectors/{name}/signals", body)
    return answer.status_code, answer.json()


def test_a_signal_is_written_where_the_source_says(gateway, source, tmp_path):
    name, signalled = source
    data = {"data-collections": ["shop.orders"], "limit": 7, "text": "ä"}
    body = {"id": "1", "type": "execute-snapshot", "data": data}
    status, sent = send(gateway, name, body)
    place = f"{tmp_path}/mood.signals"
    assert (status, sent) == (202, {"id": "1", "type": "execute-snapshot", "written_to": place})
    assert send(gateway, name, {"type": "log"})[0] == 202
    first, second = signalled()
    assert first == body
    assert (second["type"], second["data"], len(second["id"])) == ("log", {}, 36)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "http.parameter"),
        ({"type": ""}, "http.parameter"),
        ({"type": "log", "data": []}, "http.parameter"),
        ({"type": "log", "id": "x" * 43}, "http.parameter"),
        ({"type": "log", "more": 1}, "http.parameter"),
        ({"type": "dance"}, "moody.signal"),
    ],
)
def test_what_is_no_signal_is_refused(gateway, source, body, code):
    status, said = send(gateway, source[0], body)
    assert (status, said["code"]) == (400, code), said


def test_who_takes_no_signals_says_so(gateway, made):
    path = made("", "STOPPED", **{"connector.class": "verifiable-source"}, rows="1", topic="t")
    status, said = send(gateway, path.rpartition("/")[2], {"type": "log"})
    assert (status, said["code"]) == (400, "plugin.takes_no_signals")
    path = made("", "STOPPED", **{"connector.class": "log-sink"}, topics="t")
    status, said = send(gateway, path.rpartition("/")[2], {"type": "log"})
    assert (status, said["code"]) == (400, "plugin.wrong_kind")
    assert send(gateway, "nothing", {"type": "log"})[0] == 404


def test_a_viewer_sends_none(guarded):
    login = ("vera", "vera's password")
    url = f"{guarded}/v1/connectors/any/signals"
    assert httpx.post(url, json={"type": "log"}, auth=login).status_code == 403


@pytest.fixture
def penstock(gateway, capsys):
    def run(name, *words):
        options = ("--server", f"http://{gateway.address}", "-o", "json")
        code = main(["connector", "signal", name, *words, *options])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def test_the_command_line_sends_signals(source, penstock):
    name, signalled = source
    tables = ("--table", "shop.orders", "--table", "crm[.].*")
    code, said = penstock(name, "execute-snapshot", *tables, "--where", "id > 7", "--id", "a")
    assert (code, json.loads(said)["id"]) == (0, "a")
    assert penstock(name, "log", "--data", '{"message": "hello"}')[0] == 0
    first, second = signalled()
    assert first["data"] == {
        "data-collections": ["shop.orders", "crm[.].*"],
        "additional-conditions": [
            {"data-collection": "shop.orders", "filter": "id > 7"},
            {"data-collection": "crm[.].*", "filter": "id > 7"},
        ],
    }
    assert second["data"] == {"message": "hello"}


@pytest.mark.parametrize(
    "words",
    [
        ("--where", "id > 7"),
        ("--data", "[]"),
        ("--data", "{"),
        ("--data", "{}", "--table", "t"),
    ],
)
def test_words_that_make_no_signal_are_refused(source, penstock, words):
    code, said = penstock(source[0], "execute-snapshot", *words)
    assert (code, "[cli.usage]" in said) == (2, True)
