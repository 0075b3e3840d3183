"""`provide.transaction.metadata`: the block `transaction` of envelopes, and where transactions
begin and end.
"""

from penstock_databases.mysql_cdc import following

from .conftest import BOTH

BOUNDARIES = "shop.transaction"
DEBEZIUM = {
    "output_format": "debezium", "topic_prefix": "shop", "provide_transaction_metadata": "true",
}  # fmt: skip


def orders(host):
    """The places of changes, by their table and key; transactions by numbers from 1."""
    known = {}
    found = []
    for dataset, row in host.rows:
        if dataset == BOUNDARIES:
            continue
        block = row["transaction"]
        if row["op"] in {None, "r"}:
            assert block is None
            continue
        number = known.setdefault(block["id"], len(known) + 1)
        place = block["total_order"], block["data_collection_order"]
        # a row that may have been read already comes as an update
        op = "c" if row["op"] == "u" else row["op"]
        found.append((number, *place, dataset[-1], op, row["__key"]["id"]))
    return sorted(found)


def boundaries(host, db):
    """Where transactions begin and end, in the order of their rows; ids by numbers from 1."""
    known = {}
    for dataset, row in host.rows:
        if dataset != BOUNDARIES:
            known.setdefault((row["transaction"] or {}).get("id"), len(known))
    for dataset, row in host.rows:
        if dataset == BOUNDARIES:
            assert row["__key"] == {"id": row["id"]}
            assert row["ts_ms"] == row["__ts_us"] // 1000 > 1_600_000_000_000
            tables = row["data_collections"]
            counts = None if tables is None else {
                one["data_collection"].removeprefix(f"{db.name}."): one["event_count"]
                for one in tables
            }  # fmt: skip
            yield row["status"], known[row["id"]], row["event_count"], counts


def fill(db):
    for table in "ab":
        db.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT)")
    db.sql("INSERT INTO a VALUES (1, 1)")


def change(db):
    """A transaction that changes two tables in turns, one row by its key; and another one."""
    db.sql("BEGIN")
    db.sql("INSERT INTO a VALUES (2, 0), (3, 0)")
    db.sql("INSERT INTO b VALUES (1, 0)")
    db.sql("UPDATE a SET id = 9 WHERE id = 1")
    db.sql("INSERT INTO b VALUES (2, 0)")
    db.sql("COMMIT")
    db.sql("DELETE FROM b WHERE id = 1")


def is_read(host):
    """Whether both tables are read: a change before that is a row that was read."""
    offsets = [one for one in host.task.offsets.values() if host.rows]
    return bool(offsets) and not any((one.get("snapshot") or {}).get("work") for one in offsets)


def take_part(host):
    """Take rows up to the first checkpoint behind some, and commit there."""
    while not (host.step() == "checkpoint" and host.rows):
        pass


EXPECTED = [
    (1, 1, 1, "a", "c", 2), (1, 2, 2, "a", "c", 3), (1, 3, 1, "b", "c", 1), (1, 4, 3, "a", "d", 1),
    (1, 5, 4, "a", "c", 9), (1, 6, 2, "b", "c", 2), (2, 1, 1, "b", "d", 1),
]  # fmt: skip
BOUNDED = [
    ("BEGIN", 1, None, None), ("END", 1, 6, {"a": 4, "b": 2}),
    ("BEGIN", 2, None, None), ("END", 2, 1, {"b": 1}),
]  # fmt: skip
ALL = 1 + 7 + 2 + len(BOUNDED)
"""Rows: one that is read, changes, their tombstones, begins and ends."""


@BOTH
def test_changes_have_their_places_in_the_order_of_the_log(db, run):
    fill(db)
    with run(db.config(**DEBEZIUM)) as host:
        host.until(lambda: is_read(host))
        change(db)
        host.until(lambda: len(host.rows) >= ALL)
    assert orders(host) == EXPECTED
    assert list(boundaries(host, db)) == BOUNDED
    sources = {row["transaction"]["id"]: row["source"]["gtid"]
               for _, row in host.rows if row.get("transaction")}  # fmt: skip
    assert all(id_ == gtid for id_, gtid in sources.items())


def test_changes_that_are_left_out_do_not_count(db, run):
    fill(db)
    with run(db.config(**DEBEZIUM, skipped_operations="d")) as host:
        host.until(lambda: is_read(host))
        change(db)
        db.sql("INSERT INTO b VALUES (7, 0)")
        host.until(lambda: len(host.rows) >= 1 + 6 + 4)
    kept = [(total, by_table) for number, total, by_table, *_ in orders(host) if number == 1]
    assert kept == [(1, 1), (2, 2), (3, 1), (4, 3), (5, 2)]
    ends = [one[2:] for one in boundaries(host, db) if one[0] == "END"]
    assert ends == [(5, {"a": 3, "b": 2}), (1, {"b": 1})], "none of a transaction without changes"


@BOTH
def test_a_transaction_that_is_given_in_parts_goes_on_counting(db, run, monkeypatch):
    """Over a crash after each part: no place and no boundary comes twice, and none is missing."""
    monkeypatch.setattr(following, "_ROWS_MOST", 1)
    fill(db)
    with run(db.config(**DEBEZIUM)) as host:
        host.until(lambda: is_read(host))
        offsets, rows = host.task.offsets, host.rows
    change(db)
    lives = 0
    while len(rows) < ALL:
        lives += 1
        with run(db.config(**DEBEZIUM), offsets) as later:
            take_part(later)
            rows += later.rows
            offsets = later.task.offsets
    host.rows = rows
    assert orders(host) == EXPECTED
    assert list(boundaries(host, db)) == BOUNDED
    assert lives > 2


def test_the_dataset_of_boundaries_can_have_another_name(db, run):
    fill(db)
    config = db.config(**DEBEZIUM, topic_transaction="tx.log", column_include_list="none")
    with run(config) as host:
        host.until(lambda: is_read(host))
        db.sql("INSERT INTO a VALUES (2, 0)")
        host.until(lambda: len(host.rows) >= 1 + 1 + 2)
    found = [row for dataset, row in host.rows if dataset == "shop.tx.log"]
    assert [(row["status"], row["event_count"]) for row in found] == [("BEGIN", None), ("END", 1)]
