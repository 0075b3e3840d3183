"""`time.precision.mode` with real servers: rows that are read and rows of the log are alike."""

import pytest

from .conftest import BOTH

COLUMNS = (
    "d DATE, t TIME(3), ts0 DATETIME, ts3 DATETIME(3), ts6 DATETIME(6), i TIMESTAMP(3) NULL, y YEAR"
)
VALUES = (
    "'2018-06-20', '-01:00:00.5', '2018-06-20 15:13:16', '2018-06-20 15:13:16.945', "
    "'2018-06-20 15:13:16.945104', '2018-06-20 15:13:16.5', 2018"
)
SECONDS = 1_529_507_596
ADAPTIVE = {
    "d": 17702, "t": -3_600_500_000, "ts0": SECONDS * 1000, "ts3": SECONDS * 1000 + 945,
    "ts6": SECONDS * 1_000_000 + 945_104, "i": "2018-06-20T15:13:16.5Z", "y": 2018,
}  # fmt: skip
MICROS = {"ts0": SECONDS * 1_000_000, "ts3": SECONDS * 1_000_000 + 945_000}
ISO = {
    "d": "2018-06-20Z", "t": "-01:00:00.5Z", "ts0": "2018-06-20T15:13:16Z",
    "ts3": "2018-06-20T15:13:16.945Z", "ts6": "2018-06-20T15:13:16.945104Z",
}  # fmt: skip


@BOTH
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("adaptive", ADAPTIVE),
        ("adaptive_time_microseconds", ADAPTIVE),
        ("microseconds", ADAPTIVE | MICROS),
        ("isostring", ADAPTIVE | ISO),
    ],
    ids=["adaptive", "adaptive_time", "microseconds", "isostring"],
)
def test_rows_that_are_read_and_changes_have_the_types_of_the_mode(db, run, mode, expected):
    db.sql("SET time_zone = '+00:00'")
    db.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {COLUMNS})")
    db.sql(f"INSERT INTO t VALUES (1, {VALUES})")
    config = db.config(output_format="debezium", topic_prefix="shop", time_precision_mode=mode)
    with run(config) as host:
        host.until(lambda: host.rows)
        db.sql(f"INSERT INTO t VALUES (2, {VALUES})")
        db.sql("UPDATE t SET d = NULL WHERE id = 2")
        host.until(lambda: len(host.rows) >= 3)
    read, created, updated = [row for _, row in host.rows]
    assert read["after"] == {"id": 1, **expected}
    assert created["after"] == updated["before"] == {"id": 2, **expected}
    assert updated["after"] == {"id": 2, **expected, "d": None}
