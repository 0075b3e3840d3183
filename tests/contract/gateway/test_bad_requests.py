"""Requests that are wrong: a status of 4xx, a code, bounded memory and time."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time

import pytest

from penstock.gateway import http_server, request_input

OK = {"name": "x", "config": {"connector.class": "verifiable-source"}}


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b"null", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'"text"', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"name":' * 300 + b"1" + b"}" * 300, "application/json", 400),
        (b'{"name": "x", "config": {"a": NaN}}', "application/json", 400),
        (b'{"name": "x", "config": {"a": {"b": 1}}}', "application/json", 400),
        (b'{"name": "x", "config": []}', "application/json", 400),
        (b"name=x", "application/x-www-form-urlencoded", 415),
        (b"<a/>", "text/xml", 415),
        (b" " * (request_input.MAX_BODY_BYTES + 1), "application/json", 413),
    ],
)
def test_a_body_that_is_wrong_is_refused(gateway, content, kind, status):
    answer = gateway.client.post("/connectors", content=content, headers={"Content-Type": kind})
    assert answer.status_code == status
    assert answer.json()["error_code"] == status
    assert answer.json()["code"]


def test_a_body_that_grows_for_ever_is_cut_off(gateway):
    def endless():
        while True:
            yield b" " * 65536

    answer = gateway.client.post(
        "/connectors", content=endless(), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/none", 404),
        ("GET", "/connectors//", 404),
        ("POST", "/connectors/x/tasks", 405),  # what Kafka Connect's workers say among themselves
        ("PUT", "/connectors/x/fence", 404),
        ("PATCH", "/connectors", 405),
        ("POST", "/connectors/x/config", 405),
        ("GET", "/connectors/%ff", 400),
        ("GET", "/connectors/" + "x" * 9000, 414),
        ("PUT", "/connectors/x/tasks-config", 404),
    ],
)
def test_a_path_of_nothing_is_refused(gateway, method, path, status):
    answer = gateway.client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error_code"] == status


def exchanged(gateway, sent, seconds=60.0):
    host, _, port = gateway.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as peer:
        peer.sendall(sent)
        found = b""
        with contextlib.suppress(ConnectionResetError):  # it left while we still sent
            while part := peer.recv(65536):
                found += part
        return found


def test_a_head_that_does_not_end_is_closed(gateway, monkeypatch):
    monkeypatch.setattr(http_server, "HEAD_TIMEOUT_S", 0.3)
    for sent in (b"", b"GET / HTTP/1.1\r\nHost:"):
        assert exchanged(gateway, sent) == b""


def test_a_head_that_is_too_large_is_refused(gateway):
    sent = b"GET / HTTP/1.1\r\nX: " + b"x" * (2 * http_server.MAX_HEAD_BYTES) + b"\r\n\r\n"
    assert exchanged(gateway, sent)[:12] in {b"HTTP/1.1 400", b""}


def test_a_body_that_does_not_come_is_told_so(gateway, monkeypatch):
    monkeypatch.setattr(request_input, "BODY_TIMEOUT_S", 0.3)
    sent = (
        b"POST /connectors HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\nConnection: close\r\n\r\n{"
    )
    assert exchanged(gateway, sent).startswith(b"HTTP/1.1 408")


def test_a_body_that_drips_is_told_so_and_others_are_answered_meanwhile(gateway, monkeypatch):
    monkeypatch.setattr(request_input, "BODY_TIMEOUT_S", 1.0)
    host, _, port = gateway.address.rpartition(":")
    head = b"POST /connectors HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as peer:
        peer.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        while not select.select([peer], [], [], 0.05)[0]:
            peer.sendall(b"1\r\n \r\n")
            assert gateway.get("/connectors").status_code == 200
        assert peer.recv(65536).startswith(b"HTTP/1.1 408")
        with contextlib.suppress(ConnectionError):  # nor is what is sent on taken for ever
            while True:
                peer.sendall(b"1\r\n \r\n")


def test_a_body_that_ends_after_its_answer_leaves_the_connection_to_the_next(gateway, monkeypatch):
    monkeypatch.setattr(http_server, "LINGER_S", 5.0)
    host, _, port = gateway.address.rpartition(":")
    head = b"POST /connectors HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\n"
    head += b"Content-Length: 9\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as peer:
        for _ in range(5):
            peer.sendall(head + b"<a>")
            found = peer.recv(65536)
            while not found.endswith(b"}"):
                found += peer.recv(65536) or pytest.fail(f"it is closed after {found!r}")
            assert found.startswith(b"HTTP/1.1 415")
            peer.sendall(b"</a>  ")
            time.sleep(0.1)  # the time that is given is what is tested


def test_what_is_no_http_is_refused(gateway):
    assert exchanged(gateway, b"\x16\x03\x01\x02\x00\r\n\r\n").startswith(b"HTTP/1.1 400")


def many_keys(count):
    return {f"k{n}": "v" for n in range(count)}


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        ("POST", "/connectors", {"name": "x", "config": many_keys(100_000)}),
        ("PUT", "/connectors/x/config", many_keys(100_000)),
        ("PUT", "/connector-plugins/file-source/config/validate", many_keys(100_000)),
        ("POST", "/v1/connectors/validate", {"name": "x", "config": many_keys(100_000)}),
    ],
)
def test_a_configuration_of_very_many_keys_is_refused_by_its_size(gateway, method, path, content):
    answer = gateway.client.request(method, path, json=content)
    assert (answer.status_code, answer.json()["code"]) == (413, "config.too_large")


def test_an_address_that_opens_many_connections_shuts_nobody_out(gateway, monkeypatch):
    """Its oldest silent ones are closed; its own requests and those of others are answered."""
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS_PER_ADDRESS", 10)
    host, _, port = gateway.address.rpartition(":")
    with contextlib.ExitStack() as stack:
        peers = [
            stack.enter_context(
                socket.create_connection((host, int(port)), source_address=("127.0.0.2", 0))
            )
            for _ in range(60)
        ]
        peers[-1].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert peers[-1].recv(100).startswith(b"HTTP/1.1 200")
        assert gateway.client.get("/health").status_code == 200
        closed = [peer for peer in peers[:50] if select.select([peer], [], [], 60)[0]]
        assert len(closed) == 50
        assert all(peer.recv(1) == b"" for peer in closed)
        assert not select.select(peers[51:-1], [], [], 0)[0]


def test_half_open_connections_do_no_harm(gateway):
    host, _, port = gateway.address.rpartition(":")
    peers = [socket.create_connection((host, int(port))) for _ in range(100)]
    try:
        for peer in peers:
            peer.sendall(b"POST /connectors HTTP/1.1\r\n")
        assert gateway.get("/connectors").status_code == 200
    finally:
        for peer in peers:
            peer.close()


def test_no_body_is_echoed(gateway):
    """Invariant 9: a body may hold a secret, also one that is no JSON."""
    answer = gateway.client.post(
        "/connectors", content=b'{"password": "canary', headers={"Content-Type": "application/json"}
    )
    assert "canary" not in answer.text
    config = {**OK["config"], "password": "canary", "rows": "canary-number"}
    answer = gateway.post("/connectors", {"name": "x", "config": config})
    assert answer.status_code == 400
    assert '"canary"' not in json.dumps(answer.json())


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/connectors/check", "OPTIONS, POST"),
        ("/v1/connectors/any", "GET, HEAD, OPTIONS"),
        ("/connectors", "GET, HEAD, OPTIONS, POST"),
        ("/plugin/reload", "GET, OPTIONS"),  # a GET that changes something
    ],
)
def test_what_is_allowed_can_be_asked_and_is_told_of_what_is_not(gateway, path, allowed):
    answer = gateway.client.request("OPTIONS", path)
    assert (answer.status_code, answer.headers["Allow"], answer.text) == (200, allowed, "")
    answer = gateway.client.request("PROPFIND", path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)


@pytest.mark.parametrize("path", ["/", "/connectors/", "/health", "/connectors/none/status"])
def test_a_head_is_a_get_without_its_body(gateway, path):
    whole, head = gateway.get(path), gateway.client.request("HEAD", path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers["content-length"] == whole.headers["content-length"]


def test_a_head_changes_nothing_and_ends_a_stream(gateway):
    assert gateway.client.request("HEAD", "/plugin/reload").status_code == 405
    head = gateway.client.request("HEAD", "/v1/logs?follow=true")
    assert (head.status_code, head.content) == (200, b"")
    assert gateway.get("/").status_code == 200, "the connection is free again"
