"""`source.snapshot` of rows of a real server, also over a restart and by signals."""

FIRST, LAST = "first_in_data_collection", "last_in_data_collection"
DEBEZIUM = {"output_format": "debezium", "topic_prefix": "shop", "snapshot_parallelism": "1"}


def marks(rows, table):
    return [row["source"]["snapshot"] for dataset, row in rows if dataset.endswith(f".{table}")]


def fill(database):
    database.sql(
        "CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a SELECT generate_series(1, 4)",
        "CREATE TABLE b (id int)", "INSERT INTO b VALUES (1), (2)",
        "CREATE TABLE c (id int PRIMARY KEY)",
    )  # fmt: skip
    database.sql("ALTER TABLE b REPLICA IDENTITY FULL")


def test_the_first_and_the_last_row_of_a_snapshot_and_of_its_tables(database, follow):
    """Chunks end with their tables, also of one without a key, and one has no rows."""
    fill(database)
    with follow(snapshot_fetch_size="2", **DEBEZIUM) as reader:
        reader.settled()
        database.sql("INSERT INTO a VALUES (9)")
        reader.until(lambda r: len(r.rows) >= 7)
    assert marks(reader.rows, "a") == ["first", "true", "true", LAST, "false"]
    assert marks(reader.rows, "b") == [FIRST, "last"]


def test_marks_go_on_after_a_restart_within_a_table(database, follow):
    fill(database)
    rows, offsets, lives = [], None, 0
    while len(rows) < 6:
        lives += 1
        with follow(offsets, snapshot_fetch_size="2", **DEBEZIUM) as reader:
            reader.take(1)
            rows += reader.rows
            offsets = reader.offsets[-1]
    assert lives > 2
    assert marks(rows, "a") == ["first", "true", "true", LAST]
    assert marks(rows, "b") == [FIRST, "last"]


def test_rows_that_a_signal_asks_for_are_incremental(database, follow):
    fill(database)
    with follow(table_include_list=r"public\.b", **DEBEZIUM) as reader:
        reader.settled()
        database.sql(
            "SELECT pg_logical_emit_message(false, 'penstock', '{\"snapshot\": \"public.b\"}')"
        )
        reader.until(lambda r: len(r.rows) >= 4)
    assert marks(reader.rows, "b") == ["first", "last", "incremental", "incremental"]
