"""Servers that refuse rows, are busy, restart, lose an index, or are no servers for searching."""

import base64
import ssl
import urllib.error
import urllib.request

import pyarrow as pa
import pytest

from penstock.api.error.v1.diagnostic_pb2 import ErrorClass
from penstock_connector.testing import RemoteError, sink_task
from penstock_kit.testing import wait_until
from penstock_search import ElasticsearchSink
from support import proxy as proxies
from support.certificates import Authority
from support.search_rows import MESSAGES, keys, rejected, rows_of, write
from support.search_servers import ElasticsearchServer
from support.web import Handler, Reply, WebServer

OK = {"errors": False, "items": [{"index": {"status": 201}}]}
BUSY = {"errors": True, "items": [{"index": {"status": 429, "error": {"type": "busy"}}}]}
ROW = [{"id": 1}]


def answers(*bulk):
    """A server that is one of searching, but for its answers to bulk requests."""
    left = list(bulk)

    def answer(asked):
        if asked.path != "/_bulk":
            return Reply({})
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def bulks(web):
    return [asked for asked in web.asked if asked.path == "/_bulk"]


def failure(web, **more):
    with pytest.raises(RemoteError) as caught:
        write(web, "t", ROW, ["id"], max_retries=2, retry_backoff_ms=1, **more)
    return caught.value.diagnostic


def class_of(diagnostic):
    return ErrorClass.Name(diagnostic.error_class).removeprefix("ERROR_CLASS_")


@pytest.fixture(autouse=True)
def head(monkeypatch):
    """A web server of tests that knows HEAD."""
    monkeypatch.setattr(Handler, "do_HEAD", Handler.answer, raising=False)
    send = Handler.send

    def send_head(self, reply):
        if self.command == "HEAD":
            reply = Reply(status=reply.status, headers=reply.headers)
        send(self, reply)

    monkeypatch.setattr(Handler, "send", send_head)


# ── bad rows ─────────────────────────────────────────────────────────────────────────────────────


def test_a_row_that_the_index_cannot_hold_is_rejected_and_the_others_go_on(elasticsearch, topic):
    fields = {"properties": {"n": {"type": "integer"}}}
    elasticsearch.request("PUT", f"/{topic}", {"mappings": fields})
    rows = rows_of({"id": pa.int64(), "n": pa.string()}, (1, "1"), (2, "two"), (3, "3"))
    assert rejected(elasticsearch, topic, rows, ["id"]) == [(1, "elasticsearch.rejected_document")]
    assert set(elasticsearch.documents(topic)) == {"1", "3"}
    with pytest.raises(RemoteError) as caught:
        write(elasticsearch, topic, rows, ["id"])
    assert caught.value.diagnostic.code == "elasticsearch.rejected_document"
    assert "failed to parse field [n] of type [integer]" in caught.value.diagnostic.message
    for behavior in ("ignore", "WARN"):
        more = {"behavior_on_malformed_documents": behavior}
        assert rejected(elasticsearch, topic, rows, ["id"], **more) == []


def test_a_row_of_which_no_document_can_be_made_is_rejected_or_left_out(elasticsearch, topic):
    rows = rows_of(
        {"id": pa.string(), "n": pa.int8()}, ("", 1), ("x" * 513, 2), (None, 3), ("y", 4)
    )
    bad = [
        (0, "elasticsearch.bad_id"),
        (1, "elasticsearch.bad_id"),
        (2, "elasticsearch.null_key"),
    ]
    assert rejected(elasticsearch, topic, rows, ["id"]) == bad
    assert rejected(elasticsearch, topic, rows, ["id"], drop_invalid_message="true") == []
    assert set(elasticsearch.documents(topic)) == {"y"}


def test_a_document_larger_than_the_servers_limit_is_rejected_alone(elasticsearch, topic):
    """The server takes 2 MB. Of a request that is larger, halves are sent."""
    sizes = (700_000, 2_500_000, 900_000, 800_000)
    rows = rows_of(
        {"id": pa.int64(), "t": pa.string()}, *((n, "x" * size) for n, size in enumerate(sizes))
    )
    more = {"max_in_flight_requests": 1, "bulk_size_bytes": -1}
    found = rejected(elasticsearch, topic, rows, ["id"], **more)
    assert found == [(1, "elasticsearch.document_too_large")]
    assert set(elasticsearch.documents(topic)) == {"0", "2", "3"}


# ── patience ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "busy",
    [
        Reply(status=429, headers={"Retry-After": "0"}),
        Reply(status=503),
        Reply(BUSY),
        Reply(broken="drop"),
    ],
    ids=["429", "503", "item", "drop"],
)
def test_a_busy_server_is_asked_again(web, busy):
    web.answer = answers(busy, busy, Reply(OK))
    write(web, "t", ROW, ["id"], retry_backoff_ms=1)
    assert len(bulks(web)) == 3
    assert len({asked.body for asked in bulks(web)}) == 1


def test_a_server_that_stays_busy_ends_the_task_for_a_while(web):
    web.answer = answers(Reply(BUSY))
    found = failure(web)
    assert (found.code, class_of(found)) == ("elasticsearch.throttled", "RETRIABLE")
    assert len(bulks(web)) == 3


def test_only_what_was_not_taken_is_sent_again(web):
    """Of two documents one is taken: the next request has the other one alone."""
    both = {"errors": True, "items": [*OK["items"], *BUSY["items"]]}
    web.answer = answers(Reply(both), Reply(OK))
    more = {"max_in_flight_requests": 1, "retry_backoff_ms": 1}
    write(web, "t", [{"id": 1}, {"id": 2}], ["id"], **more)
    first, second = (asked.body.splitlines() for asked in bulks(web))
    assert first[2:] == second


def test_a_server_that_is_silent_is_left(web):
    web.answer = answers(Reply(broken="hang"))
    found = failure(web, read_timeout_ms=50)
    assert found.code == "elasticsearch.timeout"


def test_the_next_server_is_asked_when_one_is_away(web):
    web.answer = answers(Reply(OK))
    write(web, "t", ROW, ["id"], connection_url=f"http://127.0.0.1:1,{web.url}")
    assert len(bulks(web)) == 1


# ── answers that are none ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reply", "code", "kind"),
    [
        (Reply("<html>log in</html>"), "elasticsearch.not_json", "CONFIG"),
        (Reply({"hello": 1}), "elasticsearch.not_json", "CONFIG"),
        (Reply({"items": []}), "elasticsearch.not_json", "CONFIG"),
        (Reply(status=401), "elasticsearch.auth", "AUTH"),
        (Reply({"error": {"type": "security_exception", "reason": "expired"}}, status=403),
         "elasticsearch.auth", "AUTH"),
        (Reply({"error": {"type": "x", "reason": "no"}}, status=400), "elasticsearch.refused",
         "CONFIG"),
        (Reply({"error": "gone"}, status=404), "elasticsearch.not_found", "CONFIG"),
        (Reply({"error": {"type": "cluster_block_exception", "reason": "disk"}}, status=403),
         "elasticsearch.blocked", "RETRIABLE"),
    ],
)  # fmt: skip
def test_an_answer_that_is_about_the_connector_ends_the_task(web, reply, code, kind):
    web.answer = answers(reply)
    found = failure(web)
    assert (found.code, class_of(found)) == (code, kind)
    assert found.fix


def test_rows_and_passwords_are_not_sent_where_an_answer_leads(web):
    other = WebServer()
    try:
        location = {"Location": f"{other.url}/_bulk"}
        for status in (301, 302, 307, 308):
            web.answer = answers(Reply(status=status, headers=location))
            found = failure(web, connection_username="u", connection_password="geheim")
            assert found.code == "elasticsearch.redirect"
            assert "geheim" not in str(found)
        assert other.asked == []
    finally:
        other.close()


def test_a_password_that_expires_while_rows_flow_is_an_error_about_it(web):
    web.answer = lambda asked: Reply(status=401 if asked.path == "/_bulk" else 200, body={})
    found = failure(web, connection_username="u", connection_password="geheim")
    assert (found.code, found.config_path) == ("elasticsearch.auth", "connection.username")
    assert "geheim" not in str(found)


# ── a real server that changes ───────────────────────────────────────────────────────────────────


def test_an_index_that_is_deleted_while_rows_flow_is_made_anew_with_its_fields(
    elasticsearch, topic
):
    rows = rows_of({"id": pa.int16(), "n": pa.int16()}, (1, 1))
    with sink_task(ElasticsearchSink, keys(elasticsearch)) as task:
        task.write(rows, dataset=topic, key_columns=["id"])
        elasticsearch.request("DELETE", f"/{topic}")
        task.write(rows, dataset=topic, key_columns=["id"])
    mapping = elasticsearch.request("GET", f"/{topic}/_mapping")[topic]["mappings"]["properties"]
    assert mapping["n"]["type"] == "short"
    assert set(elasticsearch.documents(topic)) == {"1"}


def test_an_index_that_is_read_only_is_waited_for(elasticsearch, topic):
    write(elasticsearch, topic, ROW, ["id"])
    setting = {"index.blocks.read_only_allow_delete": True}
    elasticsearch.request("PUT", f"/{topic}/_settings", setting)
    with pytest.raises(RemoteError) as caught:
        write(elasticsearch, topic, ROW, ["id"], max_retries=1, retry_backoff_ms=1)
    assert caught.value.diagnostic.code in {"elasticsearch.blocked", "elasticsearch.throttled"}


def test_a_server_that_restarts_in_the_middle_has_every_row_once(tmp_path):
    rows = rows_of(MESSAGES, *((f"k{n}", f"v{n}", 0, n) for n in range(200)))
    with ElasticsearchServer(tmp_path / "own") as server:
        with sink_task(ElasticsearchSink, keys(server)) as task:
            task.write(rows.slice(0, 100), dataset="t")
            server.kill()
            txn = task.next_txn()
            task.put(rows.slice(100), txn_id=txn, dataset="t")
            with pytest.raises(RemoteError) as caught:
                task.prepare(txn, [(0, 0, 100)])
            assert caught.value.diagnostic.code == "elasticsearch.unreachable"
        server.start()
        wait_until(lambda: len(server.documents("t")) == 100, 60, "its index is there again")
        with sink_task(ElasticsearchSink, keys(server)) as task:
            task.write(rows, dataset="t")
        assert server.documents("t") == {f"k{n}": {"name": f"v{n}"} for n in range(200)}


# ── ways to it ───────────────────────────────────────────────────────────────────────────────────


class Gate:
    """Passes requests of one user on to a server that has no logins of its own."""

    def __init__(self, server, login):
        self._server, self._login = server, login

    def __call__(self, asked):
        wanted = f"Basic {base64.b64encode(self._login.encode()).decode()}"
        if asked.headers["Authorization"] != wanted:
            return Reply({"error": {"type": "security_exception", "reason": "who?"}}, status=401)
        query = "&".join(f"{name}={value}" for name, value in asked.query.items())
        request = urllib.request.Request(
            f"{self._server.url}{asked.path}?{query}", asked.body or None, method=asked.method
        )
        for name in ("Content-Type", "Content-Encoding"):
            if name in asked.headers:
                request.add_header(name, asked.headers[name])
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return Reply(answer.read(), answer.status, {"Content-Type": "application/json"})
        except urllib.error.HTTPError as error:
            return Reply(error.read(), error.code)


@pytest.fixture
def secure(elasticsearch, tmp_path):
    """The server behind TLS and a login, which also asks for a certificate."""
    authority = Authority(tmp_path / "certificates")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.sign("localhost"))
    context.load_verify_locations(authority.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    own = authority.sign("penstock")
    (tmp_path / "own.pem").write_text(own[0].read_text() + own[1].read_text())
    server = WebServer(context)
    server.answer = Gate(elasticsearch, "writer:s3cret")
    server.keys = {
        "connection_username": "writer", "connection_password": "s3cret",
        "elastic_security_protocol": "SSL",
        "elastic_https_ssl_truststore_location": authority.ca,
        "elastic_https_ssl_keystore_location": tmp_path / "own.pem",
    }  # fmt: skip
    yield server
    server.close()


def test_rows_go_through_tls_with_a_login_and_a_certificate(secure, elasticsearch, topic):
    write(secure, topic, ROW, ["id"], connection_compression="true", **secure.keys)
    assert elasticsearch.documents(topic) == {"1": {"id": 1}}


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"connection_password": "other"}, "elasticsearch.auth"),
        ({"elastic_security_protocol": "PLAINTEXT", "elastic_https_ssl_truststore_location": "",
          "elastic_https_ssl_keystore_location": ""}, "elasticsearch.tls"),
    ],
)  # fmt: skip
def test_a_check_tells_what_is_wrong_with_a_login_and_a_certificate(secure, wrong, code):
    config = keys(secure, **(secure.keys | wrong))
    with pytest.raises(RemoteError) as caught, sink_task(ElasticsearchSink, config):
        pass
    assert caught.value.diagnostic.code == code
    assert "s3cret" not in str(caught.value.diagnostic)


def test_rows_go_through_a_proxy(web, monkeypatch):
    monkeypatch.setattr(proxies.Handler, "do_HEAD", proxies.Handler.pass_on, raising=False)
    proxy = proxies.ProxyServer()
    proxy.login = "me:pw"
    try:
        web.answer = answers(Reply(OK))
        more = {"proxy_host": "localhost", "proxy_port": proxy.port, "proxy_username": "me"}
        write(web, "t", ROW, ["id"], proxy_password="pw", **more)
        assert any(verb == "POST" for verb, _, _ in proxy.asked)
        found = failure(web, proxy_password="other", **more)
        assert found.code == "elasticsearch.auth"
    finally:
        proxy.close()


def test_a_pipeline_that_is_not_there_is_told_before_rows_flow(elasticsearch, topic):
    with pytest.raises(RemoteError) as caught:
        write(elasticsearch, topic, ROW, ["id"], pipeline="absent")
    assert caught.value.diagnostic.code == "elasticsearch.no_pipeline"
    elasticsearch.request("PUT", "/_ingest/pipeline/empty", {"processors": []})
    write(elasticsearch, topic, ROW, ["id"], pipeline="empty")
    assert set(elasticsearch.documents(topic)) == {"1"}
