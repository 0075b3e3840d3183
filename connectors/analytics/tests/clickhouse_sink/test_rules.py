"""Keys that contradict each other, keys of ClickHouse's own sink, tables of the wrong engine."""

import pyarrow as pa
import pytest

from penstock_analytics.clickhouse_sink import ClickHouseSink, ClickHouseSinkConfig
from penstock_analytics.clickhouse_sink.catalog import engine_of
from penstock_analytics.clickhouse_sink.failing import server_error
from penstock_connector import ConfigError
from penstock_connector._config import compatibility_keys, parse_config, read_config

BASE = {"hostname": "h"}
UPSERTS = {
    "insert.mode": "upsert",
    "pk.mode": "record_value",
    "pk.fields": "id",
    "delete.enabled": "true",
}


def parsed(**keys):
    return parse_config(ClickHouseSinkConfig, BASE | keys)


def codes(keys):
    return [one.code for one in ClickHouseSink.validate(parse_config(ClickHouseSinkConfig, keys))]


def test_a_configuration_of_clickhouses_own_sink_loads():
    theirs = {
        "hostname": "h", "port": "8443", "ssl": "true", "database": "d", "username": "u",
        "password": "p", "exactlyOnce": "true", "topic2TableMap": "a=b, c=x.y",
        "clickhouseSettings": "insert_quorum=2, date_time_input_format=best_effort",
        "timeoutSeconds": "60", "retryCount": "5", "tableRefreshInterval": "300",
        "bypassRowBinary": "true", "tolerateStateMismatch": "true", "zkPath": "/x",
        "zkDatabase": "y", "ignorePartitionsWhenBatching": "true", "client_version": "V2",
        "customInsertFormat": "false", "insertFormat": "none", "jdbcConnectionProperties": "",
        "suppressTableExistenceException": "false", "keeperOnCluster": "", "proxyType": "",
        "bufferCount": "100", "bufferFlushTime": "5", "auto.evolve": "true",
        "reportInsertedOffsets": "true", "clickhouseClientInsertTimeoutMs": "1000",
        "bypassSchemaValidation": "true", "bypassFieldCleanup": "true", "clusterName": "",
    }  # fmt: skip
    config = parse_config(ClickHouseSinkConfig, theirs)
    assert config.place.url == "https://h:8443"
    assert config.settings == {"insert_quorum": "2", "date_time_input_format": "best_effort"}
    assert config.write_retry.attempts == 6
    assert str(config.table("c")) == "x.y"
    words = {name: one.why for name, one in compatibility_keys(type(config), theirs).items()}
    silent = {"customInsertFormat", "jdbcConnectionProperties", "keeperOnCluster", "clusterName",
              "suppressTableExistenceException", "insertFormat"}  # fmt: skip
    assert {name for name, why in words.items() if not why} == silent
    assert ClickHouseSink.validate(config) == []
    assert "com.clickhouse.kafka.connect.ClickHouseSinkConnector" in ClickHouseSink.aliases


@pytest.mark.parametrize(
    "key",
    ["jdbcConnectionProperties", "suppressTableExistenceException", "customInsertFormat",
     "dateTimeFormats", "keeperOnCluster", "clusterName", "debeziumCDCEnabled"],
)  # fmt: skip
def test_what_would_be_missed_is_refused_with_a_way_out(key):
    _, (error,) = read_config(ClickHouseSinkConfig, BASE | {key: "true"})
    assert error.code == "config.not_supported"
    assert error.fix.startswith("Leave it out")


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({}, "clickhouse.place"),
        ({**BASE, "connection.url": "http://h"}, "clickhouse.place"),
        ({"connection.url": "http://h", "ssl": "true"}, "clickhouse.place"),
        ({**BASE, "username": "a", "connection.user": "b"}, "clickhouse.login"),
        ({**BASE, "password": "a", "connection.password": "b"}, "clickhouse.login"),
        ({**BASE, "proxyType": "socks"}, "clickhouse.proxy"),
        ({**BASE, "proxyType": "http"}, "clickhouse.proxy"),
        ({**BASE, "proxyHost": "p"}, "clickhouse.proxy"),
        ({**BASE, "ssl.ca.file": "/x"}, "clickhouse.tls_unused"),
        ({**BASE, "port": "70000"}, "clickhouse.bounds"),
        ({**BASE, "timeoutSeconds": "0"}, "clickhouse.bounds"),
        ({**BASE, "inserts.in.flight": "65"}, "clickhouse.bounds"),
        ({**BASE, "insert.max.rows": "0"}, "clickhouse.bounds"),
        ({**BASE, "clickhouseSettings": "a"}, "clickhouse.pairs"),
        ({**BASE, "topic2TableMap": "a=b,c"}, "clickhouse.pairs"),
        ({**BASE, "clickhouseSettings": "async_insert=1"}, "clickhouse.setting_refused"),
        ({**BASE, "clickhouseSettings": "insert_deduplicate=0"}, "clickhouse.setting_refused"),
        ({**BASE, "clickhouseSettings": "a&b=1"}, "clickhouse.setting_refused"),
        ({**BASE, "enableDbTopicSplit": "true"}, "clickhouse.split"),
        ({**BASE, "version.column": "a", "deleted.column": "a"}, "clickhouse.columns"),
        ({**BASE, "insert.mode": "upsert"}, "clickhouse.pk_mode"),
        ({**BASE, "delete.enabled": "true"}, "clickhouse.delete_needs_key"),
    ],
)
def test_keys_that_contradict_each_other_are_told(keys, code):
    assert code in codes(keys)


@pytest.mark.parametrize(
    "url", ["ftp://h", "http://u:p@h", "http://h?a=b", "http://h:x", "h:8123", "http://"]
)
def test_a_url_that_is_none_is_told(url):
    with pytest.raises(ConfigError, match=r"clickhouse\.url") as caught:
        _ = parse_config(ClickHouseSinkConfig, {"connection.url": url}).place
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "url", "database"),
    [
        ({"hostname": "h"}, "http://h:8123", "default"),
        ({"hostname": "::1", "ssl": "true"}, "https://[::1]:8443", "default"),
        ({"connection.url": "https://h/d"}, "https://h:8443", "d"),
        ({"connection.url": "http://h:1/", "database": "e"}, "http://h:1", "e"),
    ],
)
def test_where_a_clickhouse_is(keys, url, database):
    place = parse_config(ClickHouseSinkConfig, keys).place
    assert (place.url, place.database) == (url, database)


def test_secrets_are_not_shown():
    assert "hush" not in repr(parsed(password="hush"))


def test_a_topic_that_is_no_table_is_told():
    with pytest.raises(ConfigError, match=r"clickhouse\.table_name"):
        parsed().table("a.b.c")
    assert parsed(**{"table.name.format": '"${topic}"'}).table("a.b.c").name == "a.b.c"


# ── engines ──────────────────────────────────────────────────────────────────────────────────────

REMEMBERS = "SETTINGS non_replicated_deduplication_window = 10"

PARTED = "ENGINE ReplacingMergeTree(v, d) PARTITION BY p"

TABLES = {
    "forgets": ("(id Int64) ENGINE MergeTree ORDER BY id", {}),
    "engine": ("(id Int64) ENGINE Memory", {}),
    "constraint": (
        f"(id Int64, CONSTRAINT c CHECK id > 0) ENGINE MergeTree ORDER BY id {REMEMBERS}",
        {},
    ),
    "no_version": (f"(id Int64) ENGINE MergeTree ORDER BY id {REMEMBERS}", UPSERTS),
    "no_version of 64 bits": (
        "(id Int64, v UInt32) ENGINE ReplacingMergeTree(v) ORDER BY id",
        UPSERTS,
    ),
    "no_deleted": ("(id Int64, v UInt64) ENGINE ReplacingMergeTree(v) ORDER BY id", UPSERTS),
    "sorting_key": (
        "(id Int64, v UInt64, d UInt8) ENGINE ReplacingMergeTree(v, d) ORDER BY (id % 2)",
        UPSERTS,
    ),
    "partition_key": (f"(id Int64, p Int8, v UInt64, d UInt8) {PARTED} ORDER BY id", UPSERTS),
    "column_required": (f"(id Int64, n Int8) ENGINE MergeTree ORDER BY id {REMEMBERS}", {}),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_that_would_lose_rows_is_refused(place, kind):
    made, keys = TABLES[kind]
    place.sql(f"CREATE TABLE {{d}}.t {made}")
    rows = [{"id": 1, "p": 1}] if kind == "partition_key" else [{"id": 1}]
    schema = pa.RecordBatch.from_pylist(rows).schema
    with place.task(**keys) as task:
        task.send(schema=task._schemas.id_of("t", schema, ())[1])
        refused = task.until("schema_applied").schema_applied
    assert [one.code for one in refused.diagnostics] == [f"clickhouse.{kind.split()[0]}"]
    assert refused.refused
    assert refused.diagnostics[0].fix


def test_the_fix_of_a_table_that_forgets_works_when_typed(place):
    place.sql("CREATE TABLE {d}.t (id Int64) ENGINE MergeTree ORDER BY id")
    with place.task() as task, pytest.raises(ValueError, match="does not remember inserts"):
        task.write([{"id": 1}], dataset="t")
    fix = f"ALTER TABLE `{place.database}`.`t` MODIFY SETTING non_replicated_deduplication_window"
    place.sql(f"{fix} = 1000")
    with place.task(epoch=2) as task:
        task.write([{"id": 1}], dataset="t")
        task.close()
    assert place.rows("t") == [(1,)]


def test_a_field_with_the_name_of_the_sinks_own_column_is_told(place):
    with (
        place.task(**UPSERTS) as task,
        pytest.raises(ValueError, match="'_version', and the sink writes that column itself"),
    ):
        task.write([{"id": 1, "_version": 2}], dataset="t")
    place.sql(
        "CREATE TABLE {d}.u (id Int64, v UInt64, d UInt8) ENGINE ReplacingMergeTree(v, d) "
        "ORDER BY id"
    )
    with place.task(epoch=2, **UPSERTS) as task, pytest.raises(ValueError, match="field 'v'"):
        task.write([{"id": 1, "v": 2}], dataset="u")


def test_engines_are_read_as_the_server_writes_them():
    full = (
        "ReplicatedReplacingMergeTree('/clickhouse/{uuid}, x', '{replica}', `a,(b`, d) "
        "ORDER BY (x, `y z`) SETTINGS index_granularity = 8192"
    )
    found = engine_of("ReplicatedReplacingMergeTree", full, "x, `y z`", [], "")
    assert (found.version, found.deleted) == ("a,(b", "d")
    assert (found.sorted_by, found.remembers) == (("x", "y z"), True)
    full = "SharedMergeTree ORDER BY x SETTINGS replicated_deduplication_window = 0"
    off = engine_of("SharedMergeTree", full, "x", [], "")
    assert not off.remembers


@pytest.mark.parametrize(
    ("said", "code", "status", "kind"),
    [
        ("Code: 516. DB::Exception: no (version 26.9.2.1)", 516, 403, "auth"),
        ("Code: 497. DB::Exception: no", 0, 500, "denied"),
        ("Code: 81. DB::Exception: no", 81, 404, "no_database"),
        ("Code: 115. DB::Exception: no", 115, 400, "setting"),
        ("Code: 469. DB::Exception: no", 469, 500, "refused"),
        ("Code: 9999. DB::Exception: no", 9999, 500, "failed"),
        ("<html>", 0, 502, "busy"),
        ("<html>", 0, 404, "answer"),
        ("", 0, 401, "auth"),
    ],
)
def test_what_a_server_says_is_told(said, code, status, kind):
    error = server_error("clickhouse h:1", said, code, status)
    assert error.code == f"clickhouse.{kind}"
    assert "version" not in error.message
    assert error.fix
