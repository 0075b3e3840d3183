"""Tables are made and get columns, when that is wanted; nothing else is ever done to them."""

import threading

import pyarrow as pa
import pytest

from penstock_connector.tables import sink as module
from penstock_connector.testing import RemoteError

AUTO = {"auto_create": "true", "auto_evolve": "true"}


def test_new_columns_are_added_and_old_rows_have_none(db):
    with db.sink(**AUTO) as task:
        task.write([{"id": 1}], dataset="t")
        task.write([{"id": 2, "name": "x"}], dataset="t")
        task.write([{"id": 3, "at": 5, "name": None}], dataset="t")
    assert db.rows("t") == [(1, None, None), (2, "x", None), (3, None, 5)]


def test_rows_without_a_column_leave_it_as_it_is(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT, kept INT DEFAULT 7)")
    db.sql("INSERT INTO t VALUES (1, 1, 1)")
    with db.sink(insert_mode="upsert", pk_mode="record_value", pk_fields="id") as task:
        task.write([{"id": 1, "n": 2}, {"id": 2, "n": 2}], dataset="t")
    assert db.rows("t") == [(1, 2, 1), (2, 2, 7)]


def test_without_leave_the_statement_is_told_and_nothing_is_done(db):
    with db.sink() as task, pytest.raises(ValueError, match="there is no table"):
        task.write([{"id": 1}], dataset="t")
    db.sql("CREATE TABLE t (id INT)")
    with db.sink(auto_create="true") as task, pytest.raises(ValueError, match="no column 'name'"):
        task.write([{"id": 1, "name": "x"}], dataset="t")
    assert db.rows("t") == []


def refusal(db, config, rows):
    """The diagnostic of a schema that is refused."""
    from penstock_connector import SchemaError
    from penstock_connector._config import parse_config
    from penstock_databases.jdbc_sink import JdbcSink, JdbcSinkConfig

    sink = JdbcSink()
    given = {name.replace("_", "."): value for name, value in config.items()}
    sink.init(parse_config(JdbcSinkConfig, {**db.config, **given}))
    sink.connect("x", 1)
    try:
        with pytest.raises(SchemaError) as caught:
            sink.apply_schema("t", pa.RecordBatch.from_pylist(rows).schema, ())
    finally:
        sink.close()
    return caught.value


def test_the_fix_can_be_run_as_it_is(db):
    error = refusal(db, {}, [{"id": 1, "100%": "x"}])
    assert error.code == "jdbc.no_table"
    statement = error.fix.partition("or run: ")[2]
    with db.connect() as session:
        session.cursor().execute(statement)
    error = refusal(db, {}, [{"id": 1, "100%": "x", "more": 1}])
    assert error.code == "jdbc.no_column"
    with db.connect() as session:
        session.cursor().execute(error.fix.partition("or run: ")[2])
    with db.sink() as task:
        task.write([{"id": 1, "100%": "x", "more": 2}], dataset="t")
    assert db.rows("t") == [(1, "x", 2)]


def test_a_column_that_needs_a_value_is_told_before_any_row(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, must INT NOT NULL)")
    assert refusal(db, {}, [{"id": 1}]).code == "jdbc.column_required"


def test_an_upsert_needs_a_unique_index_over_its_key(db):
    db.sql("CREATE TABLE t (id INT, n INT)")
    config = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}
    assert refusal(db, config, [{"id": 1, "n": 1}]).code == "jdbc.no_unique_key"
    db.sql("CREATE UNIQUE INDEX u ON t (id, n)")
    assert refusal(db, config, [{"id": 1, "n": 1}]).code == "jdbc.no_unique_key"
    db.sql("CREATE UNIQUE INDEX v ON t (id)")
    with db.sink(**config) as task:
        task.write([{"id": 1, "n": 1}], dataset="t")
        task.write([{"id": 1, "n": 2}], dataset="t")
    assert db.rows("t") == [(1, 2)]


def test_a_key_is_not_added_to_a_table(db):
    db.sql("CREATE TABLE t (n INT)")
    config = {"pk_mode": "record_value", "pk_fields": "id", "auto_evolve": "true"}
    assert refusal(db, config, [{"id": 1, "n": 1}]).code == "jdbc.new_key_column"


def test_another_unique_index_is_a_constraint_and_no_way_to_find_a_row(db):
    """ON DUPLICATE KEY UPDATE would overwrite the row that has the same address."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, mail VARCHAR(20) UNIQUE, n INT)")
    db.sql("INSERT INTO t VALUES (1, 'a@x', 1)")
    with db.sink(insert_mode="upsert", pk_mode="record_value", pk_fields="id") as task:
        task.write(
            [{"id": 1, "mail": "a@x", "n": 2}, {"id": 3, "mail": "c@x", "n": 1}], dataset="t"
        )
        with pytest.raises(RemoteError) as caught:
            task.write([{"id": 2, "mail": "a@x", "n": 9}], dataset="t")
    assert caught.value.code == "sql.constraint"
    assert db.rows("t") == [(1, "a@x", 2), (3, "c@x", 1)]


def test_generated_columns_are_the_databases_own(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, twice INT GENERATED ALWAYS AS (id * 2) STORED)")
    with db.sink(insert_mode="upsert", pk_mode="record_value", pk_fields="id") as task:
        task.write([{"id": 2, "twice": 99}], dataset="t")
    assert db.rows("t") == [(2, 4)]


def test_identity_columns_take_the_values_of_rows(pg):
    pg.sql("CREATE TABLE t (id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n INT)")
    for number, mode in enumerate(("insert", "upsert")):
        config = {"insert_mode": mode, "pk_mode": "record_value", "pk_fields": "id"}
        with pg.sink(epoch=number + 1, **config) as task:
            task.write([{"id": 7 + number, "n": 1}], dataset="t")
    assert pg.rows("t") == [(7, 1), (8, 1)]


def test_tables_without_transactions_are_refused(my):
    my.sql("CREATE TABLE t (id INT) ENGINE=MyISAM")
    assert refusal(my, {}, [{"id": 1}]).code == "jdbc.not_transactional"


def test_views_are_written_to_when_that_is_allowed(pg, my):
    for db in (pg, my):
        db.sql("CREATE TABLE base (id INT PRIMARY KEY, n INT)")
        db.sql("CREATE VIEW t AS SELECT * FROM base")
        assert refusal(db, {}, [{"id": 1}]).code == "jdbc.table_type"
        with db.sink(epoch=2, table_types="VIEW") as task:
            task.write([{"id": 1, "n": 1}, {"id": 2, "n": None}], dataset="t")
        assert db.rows("base") == [(1, 1), (2, None)]


def test_policies_for_rows_are_obeyed(pg):
    pg.sql("CREATE ROLE writer LOGIN")
    pg.sql("GRANT ALL ON SCHEMA public TO writer")
    pg.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    pg.sql("GRANT ALL ON t TO writer")
    pg.sql("ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    pg.sql("CREATE POLICY p ON t WITH CHECK (id < 10)")
    with pg.sink(connection_user="writer") as task:
        task.write([{"id": 1}], dataset="t")
        with pytest.raises(RemoteError) as caught:
            task.write([{"id": 11}], dataset="t")
    assert caught.value.code == "sql.denied"
    assert pg.rows("t") == [(1,)]
    pg.sql("DROP OWNED BY writer")
    pg.sql("DROP ROLE writer")


def test_tasks_that_make_and_alter_a_table_at_once_do_no_harm(db):
    from penstock_connector._config import parse_config
    from penstock_databases.jdbc_sink import JdbcSink, JdbcSinkConfig

    config = parse_config(
        JdbcSinkConfig, {**db.config, "auto.create": "true", "auto.evolve": "true"}
    )
    errors = []
    barrier = threading.Barrier(4)

    def run(number):
        sink = JdbcSink()
        sink.init(config)
        try:
            sink.connect(f"task-{number}", 1)
            for width in (1, 2, 3):
                barrier.wait(60)
                names = [f"c{n}" for n in range(width)]
                sink.apply_schema("t", pa.schema([(name, pa.int64()) for name in names]), ())
        except Exception as error:  # noqa: BLE001 - looked at below
            errors.append(error)
            barrier.abort()
        finally:
            sink.close()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert db.rows("t") == []


def test_a_table_that_somebody_made_between_look_and_create_is_taken(db, monkeypatch):
    real = module.plan_statements
    made = []

    def plan(*about):
        found = real(*about)
        if not made:
            made.append(db.sql("CREATE TABLE t (id BIGINT)"))
        return found

    monkeypatch.setattr(module, "plan_statements", plan)
    with db.sink(**AUTO) as task:
        task.write([{"id": 1, "n": 2}], dataset="t")
    assert db.rows("t") == [(1, 2)]


def test_a_schema_that_comes_while_a_transaction_is_prepared_does_not_break_it(db):
    with db.sink(**AUTO) as task:
        txn = task.next_txn()
        task.put([{"id": 1}], txn_id=txn, dataset="t")
        task.prepare(txn, [(0, 0, 1)])
        task.put([{"id": 2, "n": 1}], txn_id=txn + 1, dataset="t")
        task.commit(txn)
        task.prepare(txn + 1, [(0, 0, 1)])
        task.commit(txn + 1)
    assert db.rows("t") == [(1, None), (2, 1)]
