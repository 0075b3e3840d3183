"""Rows of any values: what the log has decodes to what the server itself says."""

# A DATETIME is a date and time somewhere; nobody says where.
# ruff: noqa: DTZ001

import datetime as dt
import time

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from penstock_connector import DataError, Op, Partition
from penstock_databases.mysql_cdc import MysqlCdc, MysqlCdcConfig

from .conftest import BOTH

TEXT = st.text(st.characters(blacklist_categories=("Cs",)), max_size=40)
LATIN = st.text(st.sampled_from([bytes([n]).decode("cp1252", "ignore") or "x" for n in range(256)]),
                max_size=20)  # fmt: skip
MOMENT = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999))
INSTANT = st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2038, 1, 18))
TIME = st.builds(
    "{}{}:{:02}:{:02}.{:06}".format, st.sampled_from(["", "-"]), st.integers(0, 837),
    st.integers(0, 59), st.integers(0, 59), st.integers(0, 999_999),
)  # fmt: skip


def decimals(precision, scale):
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda n: f"{n}e-{scale}")


COLUMNS = {
    "i8": ("TINYINT", st.integers(-128, 127)),
    "u24": ("MEDIUMINT UNSIGNED", st.integers(0, (1 << 24) - 1)),
    "i24": ("MEDIUMINT", st.integers(-(1 << 23), (1 << 23) - 1)),
    "u32": ("INT UNSIGNED", st.integers(0, (1 << 32) - 1)),
    "i64": ("BIGINT", st.integers(-(1 << 63), (1 << 63) - 1)),
    "u64": ("BIGINT UNSIGNED", st.integers(0, (1 << 64) - 1)),
    "d9": ("DECIMAL(9,9)", decimals(9, 9)),
    "d28": ("DECIMAL(28,11)", decimals(28, 11)),
    "d65": ("DECIMAL(65,30)", decimals(65, 30)),
    "f4": ("FLOAT", st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "f8": ("DOUBLE", st.floats(allow_nan=False, allow_infinity=False)),
    "b17": ("BIT(17)", st.integers(0, (1 << 17) - 1)),
    "dt0": ("DATETIME", MOMENT.map(lambda one: one.replace(microsecond=0))),
    "dt3": ("DATETIME(3)", MOMENT.map(lambda one: one.replace(microsecond=one.microsecond // 1000
                                                             * 1000))),
    "dt6": ("DATETIME(6)", MOMENT),
    "ts6": ("TIMESTAMP(6) NULL", INSTANT),
    "ti6": ("TIME(6)", TIME),
    "ti1": ("TIME(1)", TIME.map(lambda text: text[:-5])),
    "ti0": ("TIME", TIME.map(lambda text: text[:-7])),
    "v": ("VARCHAR(40)", TEXT),
    "c": ("CHAR(40)", TEXT),
    "tx": ("MEDIUMTEXT", TEXT),
    "la": ("VARCHAR(20) CHARACTER SET latin1", LATIN),
    "ut": ("VARCHAR(40) CHARACTER SET utf16", TEXT),
    "bi": ("BINARY(16)", st.binary(max_size=16)),
    "vb": ("VARBINARY(300)", st.binary(max_size=300)),
    "uu": ("UUID", st.one_of([st.uuids(version=n).map(str) for n in (1, 3, 4, 5)])),
    "i6": ("INET6", st.ip_addresses(v=6).map(str)),
    "i4": ("INET4", st.ip_addresses(v=4).map(str)),
    "en": ("ENUM('a','é','😀b')", st.sampled_from(["a", "é", "😀b"])),
    "se": ("SET('a','é','c')", st.sets(st.sampled_from(["a", "é", "c"])).map(",".join)),
    "co": ("VARCHAR(40) COMPRESSED", TEXT),
    "ye": ("YEAR", st.integers(1901, 2155) | st.just(0)),
}  # fmt: skip
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, (_, values) in COLUMNS.items()}),
    min_size=1, max_size=25,
)  # fmt: skip


MARIADB_ALONE = ("UUID", "INET6", "INET4", "COMPRESSED")


def _kinds(db):
    """The columns that the server has types for."""
    left_out = MARIADB_ALONE if db.is_mysql else ()
    return {name: kind for name, (kind, _) in COLUMNS.items() if not kind.endswith(left_out)}


class Direct:
    """A task without a host."""

    def __init__(self, config):
        self.source = MysqlCdc()
        self.source.init(config)
        (partition,) = MysqlCdc.plan(config, 1, ())
        self.source.connect([Partition(partition.key)])
        self.source.ack({partition.id: self.source.read_batch().offset})

    def rows(self, count):
        rows, end = [], time.monotonic() + 30
        while len(rows) < count:
            assert time.monotonic() < end, len(rows)
            batch = self.source.read_batch()
            if batch is None:
                self.source.wait(1)
                continue
            if batch.rows:
                rows += batch.rows.to_pylist()
        return rows


def config_of(db, **keys):
    return MysqlCdcConfig(
        connection_url=db.server.url(), connection_user="penstock", connection_password="penstock",
        table_include_list=(rf"{db.name}\.t",), **keys,
    )  # fmt: skip


@BOTH
@given(ROWS)
@settings(
    max_examples=10, deadline=None, suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # to shrink a row takes too long against a server
)  # fmt: skip
def test_rows_of_the_log_are_those_of_the_server(db, wanted):
    db.sql("DROP TABLE IF EXISTS t")
    kinds = _kinds(db)
    columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    db.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
    streamed = Direct(config_of(db, snapshot_mode="no_data"))
    try:
        for id_, row in enumerate(wanted):
            places = ", ".join(["%s"] * (len(kinds) + 1))
            db.sql(f"INSERT INTO t VALUES ({places})", id_, *(row[name] for name in kinds))
        db.sql("UPDATE t SET id = id + 1000 ORDER BY id DESC")
        logged = streamed.rows(3 * len(wanted))
    finally:
        streamed.source.close()
    read = Direct(config_of(db))
    try:
        selected = read.rows(len(wanted))
    finally:
        read.source.close()
    created, moved = logged[: len(wanted)], logged[len(wanted) :]
    names = list(kinds)
    for id_, row in enumerate(selected):
        assert row["__op"] == Op.SNAPSHOT
        for name in names:
            assert created[id_][name] == row[name], name
    after = sorted((row for row in moved if row["__op"] == Op.CREATE), key=lambda row: row["id"])
    assert [[row[n] for n in names] for row in after] == [
        [row[n] for n in names] for row in selected
    ]


ZEROS = ("0000-00-00", "2020-00-00", "2020-05-00", "0000-00-00 00:00:00", "2020-02-30")


@BOTH
@pytest.mark.parametrize("policy", ["null", "round", "fail"])
def test_dates_of_zeros_become_what_is_wanted(db, policy):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, a DATE, b DATETIME(3), c TIMESTAMP NULL)")
    task = Direct(config_of(db, snapshot_mode="no_data", zero_dates=policy))
    try:
        db.sql("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
        for id_, text in enumerate(ZEROS):
            db.sql("INSERT INTO t VALUES (%s, %s, %s, 0)", id_, text, text)
        if policy == "fail":
            with pytest.raises(DataError, match=r"sql\.odd_value"):
                task.rows(len(ZEROS))
            return
        rows = task.rows(len(ZEROS))
    finally:
        task.source.close()
    day = dt.date(1, 1, 1) if policy == "round" else None
    moment = dt.datetime(1, 1, 1) if policy == "round" else None
    for row in rows:
        assert (row["a"], row["b"]) == (day, moment)
        assert row["c"] == (moment.replace(tzinfo=dt.UTC) if moment else None)


def test_no_chunk_begins_inside_a_transaction(db):
    """Its place could be before the transaction's end, of which rows were settled already."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1)")
    task = Direct(config_of(db))
    try:
        source = task.source
        source._connect(source._follower)
        source._follower.track.begin("0-1-999999")
        assert source.read_batch() is None
        assert source._snapshot.limit(0) is None
        source._follower.track.again()
        assert [row["id"] for row in task.rows(1)] == [1]
    finally:
        task.source.close()
