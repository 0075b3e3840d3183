"""`source.snapshot` of rows of real servers, also over a restart and by signals."""

from .conftest import BOTH

FIRST, LAST = "first_in_data_collection", "last_in_data_collection"
DEBEZIUM = {"output_format": "debezium", "topic_prefix": "shop", "snapshot_parallelism": "1"}


def marks(rows, table):
    return [row["source"]["snapshot"] for dataset, row in rows if dataset.endswith(f".{table}")]


def is_read(host):
    offsets = host.task.offsets.values()
    return host.rows and not any((one.get("snapshot") or {}).get("work") for one in offsets)


def fill(db):
    for table, count in (("a", 4), ("b", 2), ("c", 0)):
        db.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
        for id_ in range(count):
            db.sql(f"INSERT INTO {table} VALUES ({id_})")


@BOTH
def test_the_first_and_the_last_row_of_a_snapshot_and_of_its_tables(db, run):
    """Chunks end with their tables, and the table that is read last has no rows."""
    fill(db)
    with run(db.config(**DEBEZIUM, snapshot_fetch_size=2)) as host:
        host.until(lambda: is_read(host))
        db.sql("INSERT INTO a VALUES (9)")
        host.until(lambda: len(host.rows) >= 7)
    assert marks(host.rows, "a") == ["first", "true", "true", LAST, "false"]
    assert marks(host.rows, "b") == [FIRST, "last"]


def test_marks_go_on_after_a_restart_within_a_table(db, run):
    fill(db)
    rows, offsets, lives = [], None, 0
    while len(rows) < 6:
        lives += 1
        with run(db.config(**DEBEZIUM, snapshot_fetch_size=2), offsets) as host:
            while not (host.step() == "checkpoint" and host.rows):
                pass
            rows += host.rows
            offsets = host.task.offsets
    assert lives > 2
    assert marks(rows, "a") == ["first", "true", "true", LAST]
    assert marks(rows, "b") == [FIRST, "last"]


def test_rows_that_a_signal_asks_for_are_incremental(db, run):
    fill(db)
    db.sql("CREATE TABLE signals (id VARCHAR(42), type VARCHAR(32), data TEXT)")
    config = db.config(**DEBEZIUM, signal_data_collection=f"{db.name}.signals")
    config["table.include.list"] = rf"{db.name}\.b"
    with run(config) as host:
        host.until(lambda: is_read(host))
        data = f'{{"data-collections": ["{db.name}.b"]}}'
        db.sql("INSERT INTO signals VALUES ('1', 'execute-snapshot', %s)", data)
        host.until(lambda: len(host.rows) >= 4)
    assert marks(host.rows, "b") == ["first", "last", "incremental", "incremental"]
