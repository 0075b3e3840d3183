"""Rows cut out of the wire are those that the driver reads, whatever bytes are in them."""

import random
import threading

import pymysql
import pytest
from pymysql.converters import encoders

from penstock_databases.mysql.packets import split
from penstock_databases.mysql.wire import RowStream

from .conftest import BOTH

SIZES = [0, 0, 1, 2, 5, 249, 250, 251, 252, 253, 255, 256, 257, 300, 65535, 65536, 70000]


def connect(database, **more):
    ((host, port),) = database.target.hosts
    return pymysql.connect(
        host=host, port=port, user="penstock", password="penstock",
        database=database.target.database, **more,
    )  # fmt: skip


def rows_of(driver, statement, block):
    rows = []
    for cells in RowStream(driver, statement, block):
        rows += zip(*(cell.to_pylist() for cell in cells), strict=True)
    return rows


def cell(rng):
    size = rng.choice(SIZES[:6] if rng.random() < 0.97 else SIZES)
    match rng.randrange(6):
        case 0:
            return None
        case 1 | 2:
            return bytes(size)
        case 3 | 4:
            return bytes([rng.choice((254, 255, 251, 5, 0))]) * size
    return rng.randbytes(size)


@pytest.fixture
def filled(mysql):
    mysql.sql("CREATE TABLE f (k INT PRIMARY KEY, a LONGBLOB, b LONGBLOB, c LONGBLOB)")
    rng = random.Random(5)
    rows = [(n, cell(rng), cell(rng), cell(rng)) for n in range(1500)]
    rows += [(2000, b"x" * 3_000_000, None, b""), (2001, b"", b"\xfe" * 3, b"y" * 300_000)]
    with connect(mysql) as driver, driver.cursor() as cursor:
        for start in range(0, len(rows), 100):
            cursor.executemany("INSERT INTO f VALUES (%s, %s, %s, %s)", rows[start : start + 100])
        driver.commit()
    return mysql


@pytest.mark.parametrize("block", [1 << 14, 1 << 16, 1 << 18])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM f ORDER BY k",
        "SELECT a FROM f ORDER BY k",
        "SELECT a, b, c FROM f WHERE LENGTH(a) < 20 ORDER BY k",
        "SELECT k, c, NULL, '' FROM f ORDER BY k DESC",
        "SELECT * FROM f WHERE k < 0",
        "SELECT '' FROM f",
        "SELECT seq, '#' FROM seq_1_to_3000",
        "SELECT seq, CONCAT('name ', seq) FROM seq_1_to_30000",
    ],
)
def test_rows_are_those_of_the_driver(filled, statement, block):
    with connect(filled, conv=dict(encoders), use_unicode=False) as driver:
        cursor = driver.cursor()
        cursor.execute(statement)
        wanted = list(cursor.fetchall())
        assert rows_of(driver, statement, block) == wanted
        assert driver.query("SELECT 1") == 1, "the connection is usable afterwards"


@BOTH
def test_a_row_of_many_megabytes_is_read(mysql):
    statement = "SELECT 1, REPEAT('z', 40000000), 'end' UNION ALL SELECT 2, NULL, 'more'"
    with connect(mysql) as driver:
        rows = rows_of(driver, statement, 1 << 16)
        assert [(a, b and len(b), c) for a, b, c in rows] == [
            (b"1", 40_000_000, b"end"),
            (b"2", None, b"more"),
        ]
        edge = (1 << 24) - 1 - 4  # a row of exactly one longest packet, and an empty one behind
        rows = rows_of(driver, f"SELECT REPEAT('z', {edge}) UNION ALL SELECT 'b'", 1 << 16)
        assert [len(a) for (a,) in rows] == [edge, 1]
        assert driver.query("SELECT 1") == 1


def test_an_error_in_the_middle_is_told_and_the_connection_goes_on(mysql):
    with connect(mysql) as driver:
        statement = "SELECT seq, (SELECT 1 UNION SELECT IF(seq = 20000, 2, 1)) FROM seq_1_to_30000"
        with pytest.raises(pymysql.OperationalError, match="1242"):
            rows_of(driver, statement, 1 << 14)
        assert driver.query("SELECT 1") == 1


def test_a_killed_connection_is_told(mysql):
    with connect(mysql) as driver, connect(mysql) as killer:
        id_ = driver.thread_id()
        statement = (
            "SELECT seq, IF(seq % 100 = 0, SLEEP(0.01), 0), REPEAT('x', 999) FROM seq_1_to_90000"
        )
        stream = iter(RowStream(driver, statement, 1 << 14))
        next(stream)
        killing = threading.Thread(target=killer.query, args=(f"KILL {id_}",))
        killing.start()
        with pytest.raises(pymysql.OperationalError, match=r"2013|1927|1317"):
            list(stream)
        killing.join()


def test_an_abandoned_stream_closes_its_connection(mysql):
    driver = connect(mysql)
    stream = iter(RowStream(driver, "SELECT seq FROM seq_1_to_90000", 1 << 14))
    next(stream)
    stream.close()
    assert not driver.open


def test_a_silent_server_is_told(mysql):
    driver = connect(mysql)
    driver._read_timeout = 1  # not before: a busy server takes its time to greet
    with pytest.raises(pymysql.OperationalError, match="2013"):
        rows_of(driver, "SELECT SLEEP(20)", 1 << 14)
    driver.close()


def test_packets_are_found_whatever_is_in_them():
    rng = random.Random(7)
    for _ in range(300):
        sizes = [
            rng.choice([0, 1, 2, 5, 255, 256, 3000, 70000]) for _ in range(rng.randrange(1, 9))
        ]
        data, starts = bytearray(), []
        for size in sizes:
            starts.append(len(data))
            body = bytes(size) if rng.random() < 0.6 else rng.randbytes(size)
            data += size.to_bytes(3, "little") + b"\x01" + body
        cut = rng.randrange(len(data) + 1)
        ends = [*starts[1:], len(data)]
        whole = [start for start, end in zip(starts, ends, strict=True) if end <= cut]
        found, end = split(data, cut)
        assert found.tolist() == whole
        assert end == ([*starts, len(data)][len(whole)])
