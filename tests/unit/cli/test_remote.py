"""Answers of a gateway as errors, and as tables."""

import json

import pytest

from penstock.cli.doctor import java_found
from penstock.cli.remote.asking import Server, error_in, path
from penstock.cli.remote.showing import cell, show
from penstock.model.errors import AuthError, ConfigError, InternalError, RetriableError


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, ConfigError), (404, ConfigError), (409, ConfigError), (401, AuthError), (403, AuthError),
     (500, InternalError), (503, RetriableError), (502, InternalError)],
)  # fmt: skip
def test_an_answer_is_an_error_of_its_class(status, kind):
    body = {"error_code": status, "message": "It broke. Mend it.", "code": "a.b", "fix": "Mend it."}
    error = error_in(status, json.dumps(body))
    assert type(error) is kind
    assert (error.code, error.diagnostic.message, error.diagnostic.fix) == (
        "a.b",
        "It broke.",
        "Mend it.",
    )


@pytest.mark.parametrize("body", ["", "<html>", "[]", '{"error": 1}'])
def test_what_another_program_answers_is_told_so(body):
    assert error_in(502, body).code == "server.foreign"


def test_names_are_parts_of_paths():
    assert path("connectors", "a/b c", "status") == "/connectors/a%2Fb%20c/status"


@pytest.mark.parametrize("url", ["", "host:8083", "ftp://host", "http://"])
def test_what_is_no_url_is_refused(url):
    with pytest.raises(ConfigError, match=r"server\.url"):
        Server(url)


def test_nobody_there_is_told_with_the_way_out():
    with Server("http://127.0.0.1:1") as server, pytest.raises(RetriableError) as caught:
        server.get("/")
    assert caught.value.code == "server.unreachable"
    assert "--server" in caught.value.diagnostic.fix


def test_control_characters_cannot_reach_the_terminal():
    assert "\x1b" not in cell("a\x1b[2Jb")
    assert cell(None) == "-"
    assert (cell(True), cell([1, "a"]), cell({"a": 1})) == ("yes", "1, a", '{"a":1}')


def test_forms_of_an_answer(capsys):
    value = [{"name": "ü", "n": 1}]
    show("json", value)
    assert json.loads(capsys.readouterr().out) == value
    show("yaml", value)
    assert capsys.readouterr().out == "- name: ü\n  n: 1\n"
    show("table", value, value)
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
    assert java_found("/usr/bin/java", said).ok is ok
