"""`prometheus-sink` and a real Prometheus: what arrives, once, and what is refused."""

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock_connector import AuthError, ConfigError, Op, RetriableError
from penstock_connector._config import parse_config, read_config
from penstock_connector.testing import RemoteError, sink_task
from penstock_kit.testing import wait_until
from penstock_metrics import PrometheusSink
from support.certificates import Authority
from support.prometheus import PrometheusServer
from support.web import Reply

NOW = int(time.time()) * 1000 - 60_000


def write(server, rows, **keys):
    config = {"url": server.write_url, "retry.backoff": "10ms"}
    config |= {name.replace("_", "."): str(value) for name, value in keys.items()}
    with sink_task(PrometheusSink, config) as task:
        return task.write(rows, dataset="d")


def test_rows_are_samples_with_sorted_labels(prometheus):
    labels = pa.map_(pa.string(), pa.string())
    z, b = ("z", "1"), ("b", 'ä\n"')
    rows = pa.table(
        {
            "name": ["sorted_a", "sorted_a", "sorted_a"],
            "labels": pa.array([[z, b], [b, z], []], labels),
            "value": [1.5, float("inf"), float("nan")],
            "timestamp": pa.array([NOW + 1, NOW, NOW], pa.timestamp("ms", "UTC")),
        }
    )  # fmt: skip
    write(prometheus, rows)
    found = {len(labels): (labels, values) for labels, values in prometheus.samples("sorted_a")}
    assert found[3] == (
        {"__name__": "sorted_a", "b": 'ä\n"', "z": "1"},
        [(NOW / 1000, "+Inf"), ((NOW + 1) / 1000, "1.5")],
    )
    assert found[1][1] == [(NOW / 1000, "NaN")]


def values(server, selector):
    """The values of the only series that a selector finds."""
    ((_, found),) = server.samples(selector)
    return [value for _, value in found]


def test_every_kind_of_number_is_a_value(prometheus):
    golden = [
        (pa.int8(), -3, "-3"), (pa.uint64(), 2**53, "9007199254740992"), (pa.bool_(), True, "1"),
        (pa.float32(), 0.5, "0.5"), (pa.decimal128(20, 3), Decimal("12.125"), "12.125"),
        (pa.string(), "+Inf", "+Inf"), (pa.string(), "1e3", "1000"),
    ]  # fmt: skip
    for at, (kind, value, shown) in enumerate(golden):
        rows = {"name": [f"kind_{at}"], "value": pa.array([value], kind), "timestamp": [NOW]}
        assert write(prometheus, pa.table(rows)) is not None
        assert values(prometheus, f"kind_{at}") == [shown]


@pytest.mark.parametrize(("unit", "of_ms"), [("s", 1e-3), ("ms", 1), ("us", 1e3), ("ns", 1e6)])
def test_whole_numbers_are_times_in_a_unit(prometheus, unit, of_ms):
    name, number = f"unit_{unit}", round(NOW * of_ms)
    write(prometheus, [{"name": name, "value": 1.0, "timestamp": number}], timestamp_unit=unit)
    ((_, found),) = prometheus.samples(name)
    assert found == [(NOW / 1000, "1")]


def test_metrics_as_confluent_writes_them(prometheus):
    rows = [
        {
            "name": "kafka_gauge", "type": "gauge", "timestamp": NOW // 1000,
            "dimensions": {"service": "ec2-2312", "method": "update"},
            "values": {"doubleValue": 5.5, "count": 7},
        }
    ]  # fmt: skip
    write(
        prometheus, rows, timestamp_unit="s", labels_column="dimensions", value_column="values",
        labels="cluster=a",
    )  # fmt: skip
    told = {labels["__name__"]: (labels, v) for labels, v in prometheus.samples('{cluster="a"}')}
    assert told["kafka_gauge"][0]["service"] == "ec2-2312"
    assert {name: v for name, (_, [(_, v)]) in told.items()} == {
        "kafka_gauge": "5.5", "kafka_gauge_count": "7",
    }  # fmt: skip


def test_lines_of_a_metrics_file_are_samples(prometheus):
    lines = [
        "# HELP rocketmq_tps Messages.", "# TYPE rocketmq_tps gauge", "",
        f'rocketmq_tps{{topic="a b\\"c\\\\",}} 12.5 {NOW}', f"rocketmq_up 1 {NOW}",
        "rocketmq_untimed 3",
    ]  # fmt: skip
    rows = [{"line": line, "__ts_us": NOW * 1000 + 5_000_000} for line in lines]
    write(prometheus, rows, format="text")
    (labels, found), = prometheus.samples("rocketmq_tps")  # fmt: skip
    assert (labels["topic"], found) == ('a b"c\\', [(NOW / 1000, "12.5")])
    ((_, found),) = prometheus.samples("rocketmq_untimed")
    assert found == [(NOW / 1000 + 5, "3")]


def test_json_and_columns_are_labels(prometheus):
    row = {"value": 3, "timestamp": NOW, "labels": '{"zone": "x", "rack": 4}', "host": "h", "n": 9}
    write(prometheus, [row], metric_name="json_labels", label_columns="host,n")
    ((labels, _),) = prometheus.samples("json_labels")
    assert labels == {
        "__name__": "json_labels", "zone": "x", "rack": "4", "host": "h", "n": "9",
    }  # fmt: skip


def test_what_comes_again_is_written_once_and_what_is_new_arrives(prometheus):
    def rows(count):
        return [
            {"name": "again", "labels": {"n": str(n % 3)}, "value": n, "timestamp": NOW + n}
            for n in range(count)
        ]

    write(prometheus, rows(20))
    write(prometheus, rows(20), batch_samples=7)
    write(prometheus, rows(50), batch_samples=16, parallel=3)
    found = sorted(float(v) for _, values in prometheus.samples("again") for _, v in values)
    assert found == list(range(50))


def test_bad_rows_are_named_one_by_one_and_the_others_arrive(prometheus):
    # a server without any sample takes one of any time
    write(prometheus, [{"name": "first", "value": 1, "timestamp": NOW}])
    good = {"name": "goodrow", "labels": '{"a": "b"}', "value": "1", "timestamp": NOW}
    bad = [
        ({"name": "no-name"}, "prometheus.bad_name"), ({"name": None}, "prometheus.bad_name"),
        ({"labels": '{"1": ""}'}, "prometheus.bad_label"),
        ({"labels": '{"__name__": "x"}'}, "prometheus.bad_label"),
        ({"labels": "[]"}, "prometheus.bad_label"), ({"labels": "{"}, "prometheus.bad_label"),
        ({"value": "many"}, "prometheus.bad_value"), ({"value": None}, "prometheus.no_value"),
        ({"timestamp": None}, "prometheus.no_timestamp"),
        ({"timestamp": 1}, "prometheus.past"),
        ({"timestamp": NOW + 10**7}, "prometheus.future"),
        ({"timestamp": NOW - 10**10}, "prometheus.out_of_bounds"),
        ({"value": "2"}, "prometheus.duplicate"),
    ]  # fmt: skip
    schema = pa.schema([("name", pa.string()), ("labels", pa.string()), ("value", pa.string()),
                        ("timestamp", pa.int64())])  # fmt: skip
    rows = pa.Table.from_pylist([good, *({**good, **one} for one, _ in bad)], schema=schema)
    config = {"url": prometheus.write_url}
    with sink_task(PrometheusSink, config, tolerates_failed_rows=True) as task:
        txn_id = task.next_txn()
        (result,) = task.put(rows, txn_id=txn_id)
        task.prepare(txn_id, [(0, 0, rows.num_rows - len(result.failed))])
        task.commit(txn_id)
        found = {failed.row: failed.reason.code for failed in [*result.failed, *task.left_out]}
    assert found == {at + 1: code for at, (_, code) in enumerate(bad)}
    assert values(prometheus, "goodrow") == ["1"]


def test_rows_that_delete_are_bad_rows(prometheus):
    row = {"name": "gone", "value": 1, "timestamp": NOW, "__op": int(Op.DELETE)}
    with sink_task(PrometheusSink, {"url": prometheus.write_url}) as task:
        (result,) = task.put([row], txn_id=task.next_txn())
    assert [failed.reason.code for failed in result.failed] == ["prometheus.delete"]
    assert prometheus.samples("gone") == []


@pytest.mark.parametrize(
    ("row", "keys", "why"),
    [
        ({"name": "a", "timestamp": NOW}, {}, "no column value"),
        ({"value": 1}, {}, "no column name"),
        ({"value": 1}, {"format": "text"}, "no column line"),
        ({"value": 1, "name": "a"}, {"label_columns": "host"}, "no column host"),
    ],
)
def test_rows_without_the_columns_of_a_sample_are_refused(prometheus, row, keys, why):
    with pytest.raises(ValueError, match=why):
        write(prometheus, [row], **keys)


@pytest.mark.parametrize(
    "column", [{"value": datetime.now(UTC).date()}, {"timestamp": 1.5}, {"labels": 3}]
)
def test_columns_of_another_type_are_refused_by_name(prometheus, column):
    row = {"name": "a", "value": 1, "timestamp": NOW, **column}
    with pytest.raises(RemoteError, match=rf"prometheus\.column_type.*`{next(iter(column))}`"):
        write(prometheus, [row])


def test_a_server_that_is_restarted_in_the_middle_loses_nothing(tmp_path, caplog):
    with PrometheusServer(tmp_path) as server:
        config = {"url": server.write_url, "retry.backoff": "50ms", "retry.attempts": "40",
                  "retry.backoff.max": "100ms"}  # fmt: skip
        with sink_task(PrometheusSink, config) as task:
            task.write([{"name": "kept", "value": 1, "timestamp": NOW}])
            server.kill()
            rows = [{"name": "kept", "value": 2, "timestamp": NOW + 1}]
            written = threading.Thread(target=task.write, args=(rows,))
            written.start()
            wait_until(lambda: "attempt 1 of" in caplog.text, 20, "an attempt that fails")
            server.start()
            written.join()
        assert values(server, "kept") == ["1", "2"]


def test_tls_and_a_login_of_a_real_server(tmp_path):
    authority = Authority(tmp_path / "tls")
    certificate, private = authority.sign("localhost", address="127.0.0.1")
    hashed = "$2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay"
    secured = (
        f"tls_server_config: {{cert_file: {certificate}, key_file: {private}}}\n"
        f"basic_auth_users: {{writer: {hashed}}}\n"
    )
    with PrometheusServer(tmp_path / "server", secured) as server:
        url = server.write_url.replace("http://", "https://")
        keys = {"url": url, "tls.ca": str(authority.ca), "auth.type": "basic",
                "auth.user": "writer", "auth.password": "test"}  # fmt: skip
        checked = parse_config(PrometheusSink.config_type, keys)
        PrometheusSink.check(checked)
        assert "auth_password" not in repr(checked)
        with sink_task(PrometheusSink, keys) as task:
            task.write([{"name": "secured", "value": 1, "timestamp": NOW}])
        with pytest.raises(AuthError, match=r"metrics\.auth"):
            PrometheusSink.check(replace(checked, auth_password="expired"))
        with pytest.raises(ConfigError, match=r"metrics\.tls"):
            PrometheusSink.check(replace(checked, tls_ca=""))


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(status=401), "metrics.auth"), (Reply(status=404), "metrics.not_found"),
        (Reply(status=503, broken=""), "metrics.server_error"),
        (Reply(status=302, headers={"Location": "http://10.0.0.1/"}), "metrics.redirect"),
        (Reply(broken="hang"), "metrics.timeout"),
        (Reply("x" * 1000, broken="drip"), "metrics.timeout"),
        (Reply(broken="drop"), "metrics.unreachable"),
        (Reply("x" * (2 << 20)), "metrics.too_large"),
        (Reply(headers={"Content-Encoding": "br"}), "metrics.not_http"),
    ],
)  # fmt: skip
def test_answers_that_are_no_success_end_the_task_by_name(web, reply, error):
    web.answer = [reply]
    config = {"url": f"{web.url}/write", "request.timeout": "300ms", "retry.attempts": "2",
              "retry.backoff": "1ms"}  # fmt: skip
    with pytest.raises(RemoteError) as raised, sink_task(PrometheusSink, config) as task:
        task.write([{"name": "a", "value": 1, "timestamp": NOW}])
    assert error in str(raised.value)


def test_a_request_without_a_server_says_so():
    config = parse_config(PrometheusSink.config_type, {"url": "http://127.0.0.1:1/api/v1/write"})
    with pytest.raises(RetriableError, match=r"metrics\.unreachable.*refused"):
        PrometheusSink.check(config)


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ({"url": "ftp://a"}, "url"), ({"url": "http://u:p@a/"}, "url"),
        ({"parallel": "0"}, "parallel"),
        ({"labels": "a"}, "labels"), ({"label.columns": "a-b"}, "label.columns"),
        ({"metric.name": "1"}, "metric.name"), ({"auth.type": "bearer"}, "auth.token"),
        ({"headers": "Host: a"}, "headers"), ({"batch.samples": "0"}, "batch.samples"),
        ({"format": "text", "metric.name": "a"}, "metric.name"),
        ({"prometheus.listener.url": "http://a"}, "prometheus.listener.url"),
        ({"timestamp.unit": "h"}, "timestamp.unit"),
    ],
)  # fmt: skip
def test_a_key_that_cannot_mean_anything_is_refused(keys, wrong):
    _, errors = read_config(PrometheusSink.config_type, {"url": "http://a/"} | keys)
    assert [error.config_path for error in errors] == [wrong]


def test_a_host_outside_of_the_reach_is_refused():
    keys = {"url": "http://a.example/", "reach.hosts": "b.example"}
    _, errors = read_config(PrometheusSink.config_type, keys)
    assert [error.code for error in errors] == ["reach.host"]
