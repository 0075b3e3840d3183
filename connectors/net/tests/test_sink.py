"""Rows as requests: what is sent, in which order, how often, and what an answer means."""

import json
import threading
import time
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock_connector import CommitMode, RetriableError
from penstock_connector._config import parse_config
from penstock_connector.testing import RemoteError, sink_task, validate
from penstock_kit.testing import wait_until
from penstock_net import HttpSink
from penstock_net.http_sink import sending
from support.web import Reply


def config(web, **keys):
    base = {"url": web.url + "/rows", "retry.backoff": "1ms", "retries": "2"}
    return base | {name.replace("_", "."): str(value) for name, value in keys.items()}


@pytest.fixture
def taking(web):
    """A server that takes everything."""
    web.answer = lambda asked: Reply(status=202)
    return web


def write(web, rows, dataset="d", **keys):
    with sink_task(HttpSink, config(web, **keys)) as task:
        assert task.opened.commit_mode == CommitMode.HOST
        task.write(rows, dataset=dataset)


def sent(web):
    return [json.loads(asked.body) for asked in web.asked]


def numbers(count):
    return [{"id": n} for n in range(count)]


def test_a_row_is_a_request_and_they_come_in_order(taking):
    write(taking, numbers(20))
    assert sent(taking) == numbers(20)
    assert {(a.method, a.headers["Content-Type"]) for a in taking.asked} == {
        ("POST", "application/json")
    }


def test_a_check_logs_in_and_connects_and_sends_no_row(web):
    web.answer = [Reply({"access_token": "t"})]
    login = {"auth.type": "oauth2", "oauth2.token.url": web.url + "/token", "oauth2.client.id": "c"}
    keys = config(web) | login | {"oauth2.client.secret": "s"}
    HttpSink.check(parse_config(HttpSink.config_type, keys))
    assert [asked.path for asked in web.asked] == ["/token"]
    for url, code in (("http://127.0.0.1:1/", "unreachable"), (web.url + "/${id}", "")):
        checked = parse_config(HttpSink.config_type, config(web) | {"url": url})
        if code:
            with pytest.raises(RetriableError, match=code):
                HttpSink.check(checked)
        else:
            HttpSink.check(checked)


def test_several_rows_are_an_array_cut_by_rows_and_bytes(taking):
    write(taking, numbers(7), batch_rows=3)
    assert sent(taking) == [numbers(7)[:3], numbers(7)[3:6], numbers(7)[6:]]
    taking.asked.clear()
    write(taking, [{"t": "x" * 40}, {"t": "y" * 400}, {"t": "z"}], batch_rows=9, batch_bytes=100)
    assert [len(rows) for rows in sent(taking)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("keys", "body"),
    [
        ({"format": "jsonl", "batch_rows": 9}, b'{"id":1,"t":"a\\"b"}\n{"id":2,"t":null}\n'),
        (
            {"format": "template", "body": '{"n":${id},"x":"${t}"}', "body_begin": '{"all":[',
             "body_separator": ",", "body_end": "]}", "batch_rows": 9},
            b'{"all":[{"n":1,"x":"a\\"b"},{"n":2,"x":null}]}',
        ),
        ({"format": "template", "body": "${topic} ${row}"}, b'd {"id":1,"t":"a\\"b"}'),
    ],
)  # fmt: skip
def test_bodies_have_the_form_that_is_asked_for(taking, keys, body):
    write(taking, [{"id": 1, "t": 'a"b'}, {"id": 2, "t": None}], **keys)
    assert taking.asked[0].body == body


def test_values_keep_their_digits(taking):
    row = {
        "d": Decimal("12345678901234567890.10"), "t": datetime(2026, 1, 2, tzinfo=UTC),
        "b": b"\x00", "f": float("nan"), "l": [1, None], "o": True, "__op": 1,
    }  # fmt: skip
    write(taking, [row])
    assert taking.asked[0].body == (
        b'{"d":12345678901234567890.10,"t":"2026-01-02T00:00:00Z","b":"AA==","f":null,'
        b'"l":[1,null],"o":true}'
    )


def test_an_address_may_be_the_rows_own_and_no_value_leaves_its_place(taking):
    rows = [{"id": "a/../b?c"}, {"id": "ü"}, {"id": "ü"}]
    write(taking, rows, url=taking.url + "/${topic}/${id}", method="PUT", batch_rows=5)
    assert [(a.method, a.path) for a in taking.asked] == [
        ("PUT", "/d/a%2F..%2Fb%3Fc"),
        ("PUT", "/d/%C3%BC"),
    ]
    assert sent(taking)[1] == rows[1:]


def test_a_row_without_an_address_is_a_bad_row_and_its_neighbours_pass(taking):
    with sink_task(HttpSink, config(taking, url=taking.url + "/${id}")) as task:
        txn = task.next_txn()
        (result,) = task.put([{"id": 1}, {"id": None}, {"id": 3}], txn_id=txn)
        assert [f.reason.code for f in result.failed] == ["http.null_in_address"]
        task.prepare(txn, [(0, 0, 2)])
    assert [a.path for a in taking.asked] == ["/1", "/3"]


CHANGES = pa.table({"id": [1, 2, 3, 4], "__op": pa.array([1, 3, 2, 7], pa.int8())})


def test_a_delete_is_never_sent_as_a_row(taking):
    """What says nothing of the change would make a row of it at the server."""
    with sink_task(HttpSink, config(taking)) as task:
        (result,) = task.put(CHANGES, txn_id=1, dataset="d")
        task.prepare(1, [(0, 0, 2)])
        task.commit(1)
    refused = [(one.row, one.reason.code) for one in result.failed]
    assert refused == [(1, "http.delete"), (3, "http.delete")]
    assert sent(taking) == [{"id": 1}, {"id": 3}]


@pytest.mark.parametrize(
    ("keys", "rows"),
    [
        ({"reserved_columns": "true"}, 4),
        ({"format": "template", "body": '{"id": ${id}, "op": ${__op}}'}, 4),
        ({"method": "DELETE"}, 3),
    ],
)
def test_a_delete_is_sent_where_its_request_says_so(taking, keys, rows):
    with sink_task(HttpSink, config(taking, **keys)) as task:
        task.write(CHANGES, dataset="d")
    assert len(taking.asked) == rows


def test_headers_of_rows_are_sent_where_they_are_named(taking):
    kind = pa.map_(pa.string(), pa.binary())
    headers = [[("X-One", b"1"), ("X-Two", b"2")], [("X-One", b"a\nb")], None]
    rows = pa.RecordBatch.from_arrays(
        [pa.array([1, 2, 3]), pa.array(headers, kind)], ["id", "__headers"]
    )
    with sink_task(HttpSink, config(taking, row_headers="x-one")) as task:
        txn = task.next_txn()
        (result,) = task.put(rows, txn_id=txn)
        task.prepare(txn, [(0, 0, 2)])
    assert [f.reason.code for f in result.failed] == ["http.bad_header"]
    assert [(a.headers["X-One"], a.headers["X-Two"]) for a in taking.asked] == [
        ("1", None), (None, None),
    ]  # fmt: skip


@pytest.mark.parametrize("broken", [Reply(status=503), Reply(status=429), Reply(broken="drop")])
def test_a_request_that_is_sent_again_has_the_same_key(web, broken):
    web.answer = [broken, broken, Reply(status=200)]
    write(web, [{"id": 1}])
    keys = [asked.headers["Idempotency-Key"] for asked in web.asked]
    assert keys == ["test-0-1-1-0-0"] * 3
    assert sent(web) == [{"id": 1}] * 3


def test_keys_tell_lives_transactions_and_requests_apart(taking):
    for epoch in (1, 2):
        with sink_task(HttpSink, config(taking), epoch=epoch) as task:
            for _ in range(2):
                task.write(numbers(2))
    keys = [asked.headers["Idempotency-Key"] for asked in taking.asked]
    assert len(set(keys)) == 8


def test_a_key_of_the_row_is_the_same_in_every_life(taking):
    keys = {"idempotency_key": "row-${id}", "idempotency_header": "X-Id"}
    for _ in range(2):
        write(taking, [{"id": "a b"}], **keys)
    assert [asked.headers["X-Id"] for asked in taking.asked] == ["row-a%20b"] * 2
    write(taking, [{"id": 1}], idempotency_key="none")
    assert taking.asked[-1].headers["Idempotency-Key"] is None


@pytest.mark.parametrize(
    ("status", "keys", "code"),
    [
        (400, {}, "http.refused"), (422, {}, "http.refused"), (401, {}, "http.auth"),
        (404, {}, "http.not_found"), (500, {}, "http.server_error"),
        (500, {"retry_statuses": "429"}, "http.refused"),
        (409, {"retry_statuses": "409"}, "http.server_error"),
        (302, {}, "http.redirect"),
    ],
)  # fmt: skip
def test_an_answer_that_is_no_success_fails_with_what_the_server_says(web, status, keys, code):
    web.answer = lambda asked: Reply("size is too large", status=status)
    with pytest.raises(RemoteError) as caught:
        write(web, numbers(3), **keys)
    assert caught.value.code == code
    assert "size is too large" in caught.value.diagnostic.message
    again = code == "http.server_error"
    assert len(web.asked) == (3 if again else 1)


def write_tolerant(web, rows, **keys):
    """Write rows; return the numbers of those that failed, with their codes."""
    with sink_task(HttpSink, config(web, **keys), tolerates_failed_rows=True) as task:
        task.write(rows)
        return [(one.row, one.reason.code) for one in task.left_out]


def refuse(web, *refused, status=422):
    """Refuse requests that have one of these rows."""
    web.answer = lambda asked: Reply(
        "no", status=status if any(b'"id":%d}' % n in asked.body for n in refused) else 200
    )


def test_tolerated_rows_that_the_server_refuses_are_named_and_the_others_sent_once(web):
    refuse(web, 3, 8)
    assert write_tolerant(web, numbers(10)) == [(3, "http.refused"), (8, "http.refused")]
    assert sent(web) == numbers(10)


def test_of_a_request_with_several_rows_halves_are_sent_until_the_row_is_found(web):
    refuse(web, 5)
    assert write_tolerant(web, numbers(8), batch_rows=8) == [(5, "http.refused")]
    taken = [row["id"] for rows in sent(web) for row in rows if {"id": 5} not in rows]
    assert taken == [0, 1, 2, 3, 4, 6, 7]
    keys = [asked.headers["Idempotency-Key"] for asked in web.asked]
    whole = "test-0-1-1-0-0"
    assert keys == [whole + end for end in ("", "-0", "-1", "-1-0", "-1-0-0", "-1-0-1", "-1-1")]


def test_in_lanes_refused_rows_have_their_own_numbers(web):
    refuse(web, *range(0, 60, 7))
    rows = [{"key": n % 5, "id": n} for n in range(60)]
    found = write_tolerant(web, rows, parallel=4, order_columns="key")
    assert [row for row, _ in found] == list(range(0, 60, 7))


@pytest.mark.parametrize(
    ("url", "status", "code"),
    [("/rows/${id}", 404, None), ("/rows", 404, "http.not_found"), ("/rows", 401, "http.auth")],
)
def test_only_what_is_about_the_row_is_tolerated(web, url, status, code):
    refuse(web, 1, status=status)
    if code is None:
        assert write_tolerant(web, numbers(3), url=web.url + url) == [(1, "http.not_found")]
        return
    with pytest.raises(RemoteError) as caught:
        write_tolerant(web, numbers(3), url=web.url + url)
    assert caught.value.code == code


def test_rows_that_were_taken_are_no_refused_ones_whatever_the_answer_is(web):
    web.answer = lambda asked: Reply("x" * 5_000, status=200)
    with pytest.raises(RemoteError) as caught:
        write_tolerant(web, numbers(4), batch_rows=4, response_max_bytes="1kB")
    assert caught.value.code == "http.too_large"
    assert len(web.asked) == 1


def test_refused_rows_are_reported_in_time_and_the_others_sent_after_that(web, monkeypatch):
    monkeypatch.setattr(sending, "_SEARCH_S", -1.0)
    refuse(web, 1, 4)
    assert write_tolerant(web, numbers(6)) == [(1, "http.refused"), (4, "http.refused")]
    assert sent(web) == numbers(6)


def test_more_refused_rows_than_can_be_dead_letters_end_the_task(web, monkeypatch):
    monkeypatch.setattr(sending, "_MOST_REFUSED", 3)
    refuse(web, *range(9))
    with pytest.raises(RemoteError) as caught:
        write_tolerant(web, numbers(9))
    assert caught.value.code == "http.refused"
    assert len(web.asked) == 4


def test_a_status_may_mean_that_the_row_is_known_already(web):
    web.answer = lambda asked: Reply(status=409)
    write(web, numbers(2), ok_statuses="409")
    assert len(web.asked) == 2


def test_rows_are_not_sent_to_where_a_server_leads(web, other_web):
    web.answer = lambda asked: Reply(status=307, headers={"Location": other_web.url})
    with pytest.raises(RemoteError) as caught:
        write(web, numbers(1))
    assert caught.value.code == "http.redirect"
    assert other_web.asked == []


def test_lanes_send_at_once_and_keep_the_order_of_each_key(web):
    together, most, lock = [0], [0], threading.Lock()
    full = threading.Event()

    def answer(asked):
        with lock:
            together[0] += 1
            most[0] = max(most[0], together[0])
            if together[0] == 3:
                full.set()
        full.wait(60)
        with lock:
            together[0] -= 1
        return Reply(status=200)

    web.answer = answer
    rows = [{"key": n % 7, "n": n} for n in range(70)]
    write(web, rows, parallel=3, order_columns="key")
    came = sent(web)
    assert sorted(row["n"] for row in came) == list(range(70))
    for key in range(7):
        assert [r["n"] for r in came if r["key"] == key] == list(range(key, 70, 7))
    assert most[0] == 3


def test_an_error_in_one_lane_ends_the_others(web):
    web.answer = lambda asked: Reply(status=400 if b'"n":3}' in asked.body else 200)
    rows = [{"key": n % 5, "n": n} for n in range(200)]
    with pytest.raises(RemoteError) as caught:
        write(web, rows, parallel=4, order_columns="key")
    assert caught.value.code == "http.refused"
    assert len(web.asked) < 200


def test_nothing_is_sent_before_it_counts(taking):
    with sink_task(HttpSink, config(taking)) as task:
        txn = task.next_txn()
        task.put([{"id": 1}], txn_id=txn, attempt=0)
        task.put([{"id": 2}], txn_id=txn, attempt=1)
        assert taking.asked == []
        task.prepare(txn, [(0, 1, 1)])
        task.commit(txn)
    assert sent(taking) == [{"id": 2}]


def test_rows_that_wait_are_bounded(taking):
    with sink_task(HttpSink, config(taking, staging_bytes="1kB")) as task:
        txn = task.next_txn()
        task.put([{"t": "x" * 900}], txn_id=txn)
        with pytest.raises(RemoteError) as caught:
            task.put([{"t": "x" * 900}], txn_id=txn, slot=1)
    assert caught.value.code == "http.staging_full"


@pytest.mark.timed("the end of a task does not wait for a server")
def test_the_end_of_a_task_does_not_wait_for_a_server_that_hangs(web):
    web.answer = lambda asked: Reply(broken="hang")
    with sink_task(HttpSink, config(web, request_timeout="300ms", retries=0)) as task:
        txn = task.next_txn()
        task.put([{"id": 1}], txn_id=txn)
        began = time.monotonic()
        with pytest.raises(RemoteError) as caught:
            task.prepare(txn, [(0, 0, 1)])
        wait_until(lambda: web.asked, 5, "the request")
    assert caught.value.code == "http.timeout"
    assert time.monotonic() - began < 5


def test_a_column_that_an_address_needs_must_be_there(taking):
    with (
        sink_task(HttpSink, config(taking, url=taking.url + "/${id}")) as task,
        pytest.raises((RemoteError, ValueError)) as caught,
    ):
        task.write([{"other": 1}])
    assert "id" in str(caught.value)
    assert taking.asked == []


@pytest.mark.parametrize(
    ("more", "codes"),
    [
        ({}, []),
        ({"parallel": "2"}, ["config.missing"]),
        ({"parallel": "65", "order.columns": "a"}, ["config.invalid_value"]),
        ({"format": "template"}, ["config.missing"]),
        ({"body": "x"}, ["config.missing"]),
        ({"batch.rows": "2", "row.headers": "*"}, ["config.invalid_value"]),
        ({"batch.rows": "2", "idempotency.key": "${id}"}, ["config.invalid_value"]),
        ({"batch.rows": "0"}, ["config.invalid_value"]),
        ({"retry.statuses": "6xx"}, ["config.invalid_value"]),
        ({"idempotency.header": "a b"}, ["config.invalid_value"]),
        ({"method": "GET"}, ["config.invalid_choice"]),
        ({"url": "http://x/${id}?q=${n}"}, []),
    ],
)
def test_configurations_are_checked(more, codes):
    assert validate(HttpSink, {"url": "http://x/", **more}) == codes
