"""`provide.transaction.metadata`: the block `transaction` of envelopes, and where transactions
begin and end.
"""

BOUNDARIES = "shop.transaction"
DEBEZIUM = {
    "output_format": "debezium", "topic_prefix": "shop", "provide_transaction_metadata": "true",
}  # fmt: skip


def orders(rows):
    """The places of changes, by their table and key; transactions by numbers from 1."""
    known = {}
    found = []
    for dataset, row in rows:
        if dataset == BOUNDARIES:
            continue
        block, source = row["transaction"], row["source"]
        if row["op"] in {None, "r"}:
            assert block is None
            continue
        assert block["id"] == f"{source['txId']}:{source['lsn']}"
        number = known.setdefault(source["txId"], len(known) + 1)
        place = block["total_order"], block["data_collection_order"]
        found.append((number, *place, dataset[-1], row["op"], row["__key"]["id"]))
    return sorted(found)


def boundaries(rows):
    """Where transactions begin and end, in the order of their rows; transactions by numbers."""
    known, last = {}, 0
    for dataset, row in rows:
        if dataset != BOUNDARIES:
            known.setdefault(str(row["source"]["txId"] if row["source"] else None), len(known))
    known.pop("None")
    for dataset, row in rows:
        if dataset == BOUNDARIES:
            xid, place = row["id"].split(":")
            assert int(place) >= last, "places of the log"
            last = int(place)
            assert row["__key"] == {"id": row["id"]}
            assert row["ts_ms"] == row["__ts_us"] // 1000 > 1_600_000_000_000
            tables = row["data_collections"]
            counts = tables and {one["data_collection"]: one["event_count"] for one in tables}
            yield row["status"], known[xid], row["event_count"], counts


def fill(database):
    for table in "ab":
        database.sql(f"CREATE TABLE {table} (id int PRIMARY KEY, n int)")
    database.sql("INSERT INTO a VALUES (1, 1)")


TRANSACTION = (
    "BEGIN; INSERT INTO a VALUES (2, 0), (3, 0); INSERT INTO b VALUES (1, 0); "
    "UPDATE a SET id = 9 WHERE id = 1; INSERT INTO b VALUES (2, 0); COMMIT"
)
CHANGE = [TRANSACTION, "DELETE FROM b WHERE id = 1"]
EXPECTED = [
    (1, 1, 1, "a", "c", 2), (1, 2, 2, "a", "c", 3), (1, 3, 1, "b", "c", 1), (1, 4, 3, "a", "d", 1),
    (1, 5, 4, "a", "c", 9), (1, 6, 2, "b", "c", 2), (2, 1, 1, "b", "d", 1),
]  # fmt: skip
BOUNDED = [
    ("BEGIN", 1, None, None), ("END", 1, 6, {"public.a": 4, "public.b": 2}),
    ("BEGIN", 2, None, None), ("END", 2, 1, {"public.b": 1}),
]  # fmt: skip
ALL = 1 + 7 + 2 + len(BOUNDED)
"""Rows: one that is read, changes, their tombstones, begins and ends."""


def test_changes_have_their_places_in_the_order_of_the_log(database, follow):
    fill(database)
    with follow(**DEBEZIUM) as reader:
        reader.settled()
        database.sql(*CHANGE)
        reader.take(9 + len(BOUNDED))
    assert orders(reader.rows) == EXPECTED
    assert list(boundaries(reader.rows)) == BOUNDED


def test_changes_that_are_left_out_do_not_count(database, follow):
    fill(database)
    with follow(skipped_operations="d", **DEBEZIUM) as reader:
        reader.settled()
        database.sql(*CHANGE, "INSERT INTO b VALUES (7, 0)")
        reader.take(6 + 4)
    kept = [place[1:3] for place in orders(reader.rows) if place[0] == 1]
    assert kept == [(1, 1), (2, 2), (3, 1), (4, 3), (5, 2)]
    ends = [one[2:] for one in boundaries(reader.rows) if one[0] == "END"]
    expected = [(5, {"public.a": 3, "public.b": 2}), (1, {"public.b": 1})]
    assert ends == expected, "none of a transaction without changes"


def test_a_transaction_that_is_given_in_parts_goes_on_counting(database, follow, monkeypatch):
    """Over a crash after each part: no place and no boundary comes twice, and none is missing."""
    monkeypatch.setattr("penstock_databases.postgres_cdc.changes._HUGE", 1)
    fill(database)
    with follow(max_batch_size="1", **DEBEZIUM) as reader:
        reader.settled()
        rows, offsets = reader.rows, reader.offsets[-1]
    database.sql(*CHANGE)
    lives = 0
    while len(rows) < ALL:
        lives += 1
        with follow(offsets, max_batch_size="1", **DEBEZIUM) as reader:
            reader.take(1)
            rows += reader.rows
            offsets = reader.offsets[-1]
    assert orders(rows) == EXPECTED
    assert list(boundaries(rows)) == BOUNDED
    assert lives > 2
