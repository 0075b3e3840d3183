"""`provide.transaction.metadata`: the block `transaction` of envelopes."""

DEBEZIUM = {
    "output_format": "debezium", "topic_prefix": "shop", "provide_transaction_metadata": "true",
}  # fmt: skip


def orders(rows):
    """The places of changes, by their table and key; transactions by numbers from 1."""
    known = {}
    found = []
    for dataset, row in rows:
        block, source = row["transaction"], row["source"]
        if row["op"] in {None, "r"}:
            assert block is None
            continue
        assert block["id"] == f"{source['txId']}:{source['lsn']}"
        number = known.setdefault(source["txId"], len(known) + 1)
        place = block["total_order"], block["data_collection_order"]
        found.append((number, *place, dataset[-1], row["op"], row["__key"]["id"]))
    return sorted(found)


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


def test_changes_have_their_places_in_the_order_of_the_log(database, follow):
    fill(database)
    with follow(**DEBEZIUM) as reader:
        reader.settled()
        database.sql(*CHANGE)
        reader.take(9)
    assert orders(reader.rows) == EXPECTED


def test_changes_that_are_left_out_do_not_count(database, follow):
    fill(database)
    with follow(skipped_operations="d", **DEBEZIUM) as reader:
        reader.settled()
        database.sql(*CHANGE, "INSERT INTO b VALUES (7, 0)")
        reader.take(6)
    kept = [place[1:3] for place in orders(reader.rows) if place[0] == 1]
    assert kept == [(1, 1), (2, 2), (3, 1), (4, 3), (5, 2)]


def test_a_transaction_that_is_given_in_parts_goes_on_counting(database, follow, monkeypatch):
    """Over a crash after each part: no place comes twice, and none is missing."""
    monkeypatch.setattr("penstock_databases.postgres_cdc.changes._HUGE", 1)
    fill(database)
    with follow(max_batch_size="1", **DEBEZIUM) as reader:
        reader.settled()
        rows, offsets = reader.rows, reader.offsets[-1]
    database.sql(*CHANGE)
    lives = 0
    while len(rows) < 1 + 7 + 2:
        lives += 1
        with follow(offsets, max_batch_size="1", **DEBEZIUM) as reader:
            reader.take(1)
            rows += reader.rows
            offsets = reader.offsets[-1]
    assert orders(rows) == EXPECTED
    assert lives > 2
