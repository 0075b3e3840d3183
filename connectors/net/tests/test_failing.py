"""Servers that fail, hang, cut off, lead elsewhere, or ask for patience; and who asks."""

import gzip
import logging
import ssl
import time

import pytest

from penstock.api.error.v1.diagnostic_pb2 import ErrorClass
from penstock_connector.testing import RemoteError, source_task, validate
from penstock_kit.testing import wait_until
from penstock_net import HttpSource
from penstock_net.web.retrying import Retries, retry_after
from support.web import Reply, WebServer

ROWS = [{"id": 1}]


def keys(web, **more):
    base = {"url": web.url + "/x", "tail": "false", "retry.backoff": "1ms", "retries": "2"}
    return base | {name.replace("_", "."): str(value) for name, value in more.items()}


def read(web, **more):
    with source_task(HttpSource, keys(web, **more)) as task:
        return task.all_rows()


def failure(web, **more):
    with pytest.raises(RemoteError) as caught:
        read(web, **more)
    return caught.value.diagnostic


@pytest.mark.parametrize(
    "broken",
    [
        Reply(status=500),
        Reply(status=503, headers={"Retry-After": "0"}),
        Reply(status=429),
        Reply(ROWS, cut=5),
        Reply(broken="drop"),
        Reply(b'[{"id": 1', headers={"Connection": "close"}, cut=1),
    ],
    ids=["500", "503", "429", "cut", "drop", "half"],
)
def test_what_may_heal_is_tried_again(web, broken):
    web.answer = [broken, broken, Reply(ROWS)]
    assert read(web) == ROWS
    assert len(web.asked) == 3


@pytest.mark.parametrize(
    ("reply", "code", "error_class"),
    [
        (Reply("worn out", status=500), "http.server_error", "RETRIABLE"),
        (Reply(status=429, headers={"Retry-After": "7000"}), "http.throttled", "RETRIABLE"),
        (Reply("no such key", status=401), "http.auth", "AUTH"),
        (Reply(status=403), "http.auth", "AUTH"),
        (Reply(status=404), "http.not_found", "CONFIG"),
        (Reply("what is size?", status=400), "http.refused", "DATA"),
        (Reply(ROWS, cut=9), "http.truncated", "RETRIABLE"),
        (Reply(broken="drop"), "http.unreachable", "RETRIABLE"),
        (Reply("<html>"), "http.not_json", "DATA"),
        (Reply("[1, NaN]"), "http.not_json", "DATA"),
        (Reply(ROWS, headers={"Content-Encoding": "br"}), "http.encoding", "DATA"),
        (Reply({"other": []}), "http.no_rows", "DATA"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_heal_is_told_by_a_code(web, reply, code, error_class):
    web.answer = lambda asked: reply
    diagnostic = failure(web, rows_pointer="/data" if code == "http.no_rows" else "")
    assert diagnostic.code == code
    assert ErrorClass.Name(diagnostic.error_class) == f"ERROR_CLASS_{error_class}"
    assert diagnostic.fix
    assert str(web.port) in diagnostic.message
    if reply.body[:2] in (b"wo", b"wh", b"no"):
        assert reply.body.decode() in diagnostic.message


def test_nobody_there_is_told_with_the_place(web):
    assert failure(web, url="http://localhost:1/x").code == "http.unreachable"
    assert failure(web, url="http://no.such.host.invalid/x").code == "http.unreachable"


@pytest.mark.timed("`request.timeout` is a promise of seconds")
def test_a_server_that_hangs_is_left_in_time(web):
    web.answer = lambda asked: Reply(broken="hang")
    began = time.monotonic()
    assert failure(web, request_timeout="200ms", retries="1").code == "http.timeout"
    assert time.monotonic() - began < 5


def test_a_server_that_drips_is_left_in_time_too(web):
    """Each byte comes in time; the whole does not."""
    web.answer = lambda asked: Reply(ROWS, cut=100_000, broken="drip")
    assert failure(web, request_timeout="200ms", retries="0").code == "http.timeout"


@pytest.mark.timed("the end of a task does not wait for a server")
def test_the_end_of_a_task_ends_a_request_that_hangs(web):
    web.answer = lambda asked: Reply(broken="hang")
    with source_task(HttpSource, keys(web)) as task:
        wait_until(lambda: web.asked, 60, "the request came")
        began = time.monotonic()
        task.drain()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("declared", [True, False])
def test_a_large_answer_is_refused_whatever_it_says_of_its_size(web, declared):
    body = b"[" + b"1," * 50_000 + b"1]"
    reply = Reply(body)
    web.answer = lambda asked: reply if declared else Reply(body).gzipped()
    assert failure(web, response_max_bytes="10kB").code == "http.too_large"


def test_a_bomb_is_not_unpacked_beyond_the_limit(web):
    bomb = gzip.compress(b" " * 50_000_000)
    web.answer = lambda asked: Reply(bomb, headers={"Content-Encoding": "gzip"})
    assert failure(web, response_max_bytes="1MiB").code == "http.too_large"


def test_packed_answers_are_read_and_cut_ones_are_not(web):
    web.answer = lambda asked: Reply(ROWS).gzipped()
    assert read(web) == ROWS
    half = Reply(ROWS).gzipped()
    half.body = half.body[:-6]
    web.answer = lambda asked: half
    assert failure(web).code == "http.truncated"


def test_redirects_are_followed_without_the_credentials_when_they_lead_elsewhere(web, other_web):
    web.answer = lambda asked: (
        Reply(status=302, headers={"Location": "/y"}) if asked.path == "/x" else Reply(ROWS)
    )
    login = {
        "auth_type": "bearer", "auth_token": "hush", "headers_secret": "X-Key: k",
        "allowed_addresses": "localhost",
    }  # fmt: skip
    assert read(web, **login) == ROWS
    assert [a.headers["Authorization"] for a in web.asked] == ["Bearer hush"] * 2
    web.answer = lambda asked: Reply(status=302, headers={"Location": other_web.url})
    other_web.answer = lambda asked: Reply(ROWS)
    assert read(web, **login) == ROWS
    assert other_web.asked[0].headers["Authorization"] is None
    assert other_web.asked[0].headers["X-Key"] is None


def test_a_circle_of_redirects_is_left(web):
    web.answer = lambda asked: Reply(status=302, headers={"Location": "/x"})
    assert failure(web).code == "http.redirect"


def test_basic_login_headers_and_hidden_parameters_are_sent(web):
    web.answer = lambda asked: Reply(ROWS)
    more = {
        "auth_type": "basic", "auth_user": "me", "auth_password": "p:w",
        "headers": "Accept: a, b | X-One: 1\\|2", "query_secret": "key=a%26b",
    }  # fmt: skip
    read(web, **more)
    (asked,) = web.asked
    assert asked.headers["Authorization"] == "Basic bWU6cDp3"
    assert (asked.headers["Accept"], asked.headers["X-One"]) == ("a, b", "1|2")
    assert asked.query == {"key": "a&b"}


OAUTH = {
    "auth_type": "oauth2", "oauth2_client_id": "me", "oauth2_client_secret": "hush",
    "oauth2_scope": "read write",
}  # fmt: skip


def test_a_token_is_fetched_once_and_again_when_it_is_refused(web, other_web):
    tokens = iter(["first", "second", "third"])
    other_web.answer = lambda asked: Reply({"access_token": next(tokens), "expires_in": 3600})
    web.answer = [
        Reply([{"id": 1}]), Reply([{"id": 2}]), Reply(status=401), Reply([{"id": 3}]),
    ]  # fmt: skip
    config = keys(web, **OAUTH, oauth2_token_url=other_web.url, tail="true", poll_interval="1ms")
    with source_task(HttpSource, config) as task:
        assert [row["id"] for row in task.rows(3)][:3] == [1, 2, 3]
    sent = [asked.headers["Authorization"] for asked in web.asked[:4]]
    assert sent == ["Bearer first", "Bearer first", "Bearer first", "Bearer second"]
    assert other_web.asked[0].headers["Authorization"] == "Basic bWU6aHVzaA=="
    assert other_web.asked[0].body == b"grant_type=client_credentials&scope=read+write"


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply("bad client hush", status=400), "http.auth"),
        (Reply(status=503), "http.server_error"),
        (Reply({"token": "x"}), "http.auth"),
        (Reply({"access_token": "a\nb"}), "http.auth"),
    ],
)
def test_a_token_server_that_refuses_is_told_without_the_secret(web, other_web, reply, code):
    other_web.answer = lambda asked: reply
    url = other_web.url + "/token"
    diagnostic = failure(web, **OAUTH, oauth2_token_url=url, oauth2_client_in="body")
    assert diagnostic.code == code
    assert "hush" not in str(diagnostic)
    assert b"client_secret=hush" in other_web.asked[0].body
    assert web.asked == []


def test_secrets_that_a_server_repeats_are_shown_to_nobody(web, caplog):
    caplog.set_level(logging.INFO)
    said = "no: hush, k%2Fy, k/y"
    web.answer = [Reply(said, status=500), Reply(said, status=401)]
    diagnostic = failure(web, auth_type="bearer", auth_token="hush", query_secret="key=k%2Fy")
    assert "no: ***, ***, ***" in diagnostic.message
    assert "hush" not in caplog.text
    assert "k/y" not in caplog.text


def test_tls_is_checked_and_certificates_can_be_named(certificate, tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    context.load_verify_locations(certificate[0])
    context.verify_mode = ssl.CERT_OPTIONAL
    server = WebServer(context)
    try:
        server.answer = lambda asked: Reply(ROWS)
        assert failure(server).code == "http.tls"
        cert, key = map(str, certificate)
        assert read(server, tls_ca=cert, tls_cert=cert, tls_key=key) == ROWS
        assert failure(server, tls_ca=str(tmp_path / "none")).code == "http.tls"
    finally:
        server.close()


def test_a_plain_server_behind_https_is_told(web):
    diagnostic = failure(web, url=web.url.replace("http:", "https:"))
    assert diagnostic.code in {"http.unreachable", "http.not_http"}


@pytest.mark.parametrize(
    ("more", "codes"),
    [
        ({}, []),
        ({"url": "ftp://x"}, ["http.bad_url"]),
        ({"url": "http://me:pw@x/"}, ["http.bad_url"]),
        ({"url": "http:///x"}, ["http.bad_url"]),
        ({"url": "http://x:99999/"}, ["http.bad_url"]),
        ({"headers": "no colon"}, ["config.invalid_value"]),
        ({"headers": "Host: x"}, ["config.invalid_value"]),
        ({"headers": "A: b\r\nC: d"}, ["config.invalid_value"]),
        ({"auth.type": "bearer"}, ["config.missing"]),
        ({"auth.type": "oauth2"}, ["config.missing"]),
        ({"mode": "cursor", "position.param": "p"}, ["config.missing"]),
        ({"mode": "page"}, ["config.missing"]),
        ({"rows.pointer": "data.items"}, ["config.invalid_value"]),
        ({"columns": "id:number"}, ["config.invalid_value"]),
        ({"columns": "id:decimal(10;2),t:timestamp"}, []),
        ({"body": "{}"}, ["config.invalid_value"]),
        ({"poll.interval": "-1s"}, ["config.invalid_value"]),
        ({"request.timeout": "0s"}, ["config.invalid_value"]),
        ({"empty.statuses": "40"}, ["config.invalid_value"]),
    ],
)
def test_configurations_are_checked(more, codes):
    assert validate(HttpSource, {"url": "http://x/", **more}) == codes


def test_pauses_double_to_their_end_and_heed_the_server():
    from penstock_connector import AuthError, RetriableError

    rules = Retries(4, 1.0, 5.0, 60.0)
    error = RetriableError("x", "x")
    pauses = [rules.pause(n, error) for n in range(1, 6)]
    assert pauses[4] is None
    assert all(0.75 * most <= p <= most for p, most in zip(pauses, (1, 2, 4, 5), strict=False))
    assert rules.pause(1, RetriableError("x", "x", retry_after=30.0)) == 30
    assert rules.pause(1, RetriableError("x", "x", retry_after=61.0)) is None
    assert rules.pause(1, AuthError("x", "x")) is None


def test_both_forms_of_retry_after_are_read():
    assert retry_after("7") == 7
    assert retry_after("Sun, 22 Nov 2026 06:00:10 GMT", now=1795327200.0) == 10
    assert retry_after("Sun, 22 Nov 2020 06:00:10 GMT") == 0
    assert retry_after("soon") == retry_after("") == 0
