"""Rows in the log: what is printed, how much, and what never is."""

import logging
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock_builtin import LogSink
from penstock_builtin.log_sink.line import Lines
from penstock_builtin.log_sink.sink import Allowance, LogSinkConfig, LogStaging
from penstock_connector import CommitMode, ConfigError
from penstock_connector.testing import sink_task, validate


@pytest.fixture
def printed(caplog):
    """The lines of the sink, so far."""
    caplog.set_level(logging.INFO, logger="penstock_builtin.log_sink")

    def lines():
        return [r.getMessage() for r in caplog.records if "log_sink" in r.name]

    return lines


def test_a_row_is_a_line_with_its_prefix_task_and_dataset(printed):
    with sink_task(LogSink, {"prefix": "look:"}) as task:
        assert task.opened.commit_mode == CommitMode.HOST
        task.write([{"id": 1, "name": "Ä\n\x1b[31m"}], dataset="people")
    assert printed() == ['look: [test-0] people {"id": 1, "name": "Ä\\n\\u001b[31m"}']


def test_a_delete_does_not_look_like_a_row(printed):
    rows = pa.table({"id": [1, 2], "__op": pa.array([1, 3], pa.int8())})
    with sink_task(LogSink, {}) as task:
        task.write(rows, dataset="d")
    assert [line.rpartition(" d ")[2] for line in printed()] == [
        '{"id": 1, "__op": 1}', '{"id": 2, "__op": 3}',
    ]  # fmt: skip


def test_no_more_rows_are_printed_than_the_bound_and_the_others_are_counted(printed):
    with sink_task(LogSink, {"rows.per.second": "3"}) as task:
        task.write([{"id": n} for n in range(100)], dataset="d")
    assert [line.rpartition(" d ")[2] for line in printed()] == [
        '{"id": 0}', '{"id": 1}', '{"id": 2}', "… 97 rows not shown",
    ]  # fmt: skip


def test_a_second_later_more_may_be_printed():
    now = [10.0]
    allowance = Allowance(5, lambda: now[0])
    assert [allowance.take(4), allowance.take(4)] == [4, 1]
    now[0] += 0.9
    assert allowance.take(1) == 0
    now[0] += 0.1
    assert allowance.take(9) == 5


def test_what_cannot_be_printed_is_not_kept():
    staging = LogStaging("d", 2)
    large = pa.record_batch({"text": ["x" * 10_000] * 100})
    for _ in range(5):
        staging.put(large)
    assert staging.rows == 500
    assert sum(batch.nbytes for batch in staging.first) < 30_000


@pytest.mark.parametrize(
    ("secrets", "expected"),
    [
        (("password",), '{"password": "***", "in": {"password": "***", "n": 1}}'),
        (("in.password",), '{"password": "p", "in": {"password": "***", "n": 1}}'),
        (("in",), '{"password": "p", "in": "***"}'),
        ((), '{"password": "p", "in": {"password": "q", "n": 1}}'),
    ],
)
def test_secrets_are_hidden_at_any_depth(secrets, expected):
    row = {"password": "p", "in": {"password": "q", "n": 1}}
    assert Lines(secrets, 1000).of(row) == expected


def test_secrets_hide_in_lists_and_maps_too():
    row = {"list": [{"pin": 1}], "map": [("pin", 2), ("other", 3)]}
    assert Lines(("pin",), 1000).of(row) == (
        '{"list": [{"pin": "***"}], "map": [["pin", "***"], ["other", 3]]}'
    )


def test_every_type_of_value_has_a_text_and_a_long_row_is_cut():
    row = {"t": datetime(2026, 1, 2, tzinfo=UTC), "d": Decimal("1.50"), "b": b"\x00", "n": None}
    assert Lines((), 1000).of({**row, "f": float("nan")}) == (
        '{"t": "2026-01-02 00:00:00+00:00", "d": "1.50", "b": "AA==", "n": null, "f": "nan"}'
    )
    assert Lines((), 5).of({"text": "x" * 100}) == '{"tex…'


def test_columns_are_chosen_and_reserved_ones_left_out(printed):
    with sink_task(LogSink, {"columns": "b"}) as task:
        task.write([{"a": 1, "b": 2, "__op": "c"}], dataset="d")
    with sink_task(LogSink, {"reserved.columns": "true", "level": "error"}) as task:
        task.write([{"a": 1, "__op": "c"}], dataset="d")
    assert [line.rpartition(" d ")[2] for line in printed()] == [
        '{"b": 2}',
        '{"a": 1, "__op": "c"}',
    ]


def test_an_attempt_that_does_not_count_is_not_printed(printed):
    with sink_task(LogSink, {}) as task:
        txn = task.next_txn()
        task.put([{"id": 1}], txn_id=txn, attempt=0)
        task.put([{"id": 2}], txn_id=txn, attempt=1)
        task.prepare(txn, [(0, 1, 1)])
        task.commit(txn)
    assert [line.rpartition("  ")[2] for line in printed()] == ['{"id": 2}']


def test_a_rate_that_the_log_cannot_take_is_refused():
    assert validate(LogSink, {"rows.per.second": "101"}) == ["config.invalid_value"]
    with pytest.raises(ConfigError):
        LogSinkConfig(row_characters=0)
