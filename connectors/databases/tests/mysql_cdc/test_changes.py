"""Changes of a real server arrive: all kinds, in order, with what they changed."""

import logging

import pytest

from penstock_connector import Op
from penstock_connector.testing import RemoteError, send_signal
from penstock_databases.cdc.snapshot import Snapshot
from penstock_databases.mysql_cdc import MysqlCdc
from penstock_databases.mysql_cdc.following import Halt

from .conftest import BOTH

NAMES = [
    "plain", "it's", 'double"quote', "back`tick", "per%cent %s", "semi;--", "select", "dot.dot",
    "ünïcode", "x" * 64, "a/*b*/",
]  # fmt: skip


def quoted(name):
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"


def of(host, dataset):
    return [row for name, row in host.rows if name == dataset]


@BOTH
def test_rows_that_are_there_come_first_then_changes(db, run):
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(64))")
    db.sql("INSERT INTO t VALUES (1, 'one'), (2, NULL)")
    name = f"{db.name}.t"
    with run(db.config()) as host:
        host.until(lambda: len(host.rows) == 2)
        assert host.ops() == ["SNAPSHOT", "SNAPSHOT"]
        db.sql("INSERT INTO t VALUES (3, 'three')")
        db.sql("UPDATE t SET name = 'two' WHERE id = 2")
        db.sql("DELETE FROM t WHERE id = 1")
        host.until(lambda: len(host.rows) == 5)
    rows = [row for _, row in host.rows[2:]]
    assert [row["__op"] for row in rows] == [Op.CREATE, Op.UPDATE, Op.DELETE]
    assert rows[1]["__before"] == {"id": 2, "name": None}
    assert rows[2]["name"] == "one"
    assert host.mirror[name] == {(2,): {"id": 2, "name": "two"}, (3,): {"id": 3, "name": "three"}}


@BOTH
def test_an_update_of_a_key_is_a_delete_and_a_create(db, run):
    db.sql("CREATE TABLE t (a INT, b VARCHAR(9), v INT, PRIMARY KEY (b, a))")
    with run(db.config(snapshot_mode="no_data")) as host:
        host.settled(db)
        db.sql("INSERT INTO t VALUES (1, 'x', 1), (2, 'x', 2), (3, 'x', 3)")
        db.sql("UPDATE t SET a = 9, v = 7 WHERE a = 2")
        db.sql("UPDATE t SET v = v + 1")
        host.settled(db)
    rows = of(host, f"{db.name}.t")
    assert [Op(row["__op"]).name for row in rows[3:]] == ["DELETE", "CREATE", *["UPDATE"] * 3]
    assert [(row["a"], row["v"]) for row in rows[3:5]] == [(2, 2), (9, 7)]
    assert rows[3]["__before"] is None
    assert host.mirror[f"{db.name}.t"].keys() == {("x", 1), ("x", 3), ("x", 9)}


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_table_and_a_column(db, run, name):
    table, column = quoted(name), quoted(name)
    db.sql(f"CREATE TABLE {table} ({column} INT PRIMARY KEY, {quoted('v' + name[:60])} TEXT)")
    db.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    with run(db.config(snapshot_fetch_size=1)) as host:
        host.until(lambda: len(host.rows) == 2)
        db.sql(f"UPDATE {table} SET {quoted('v' + name[:60])} = 'c%%'")
        db.sql(f"TRUNCATE TABLE {table}")
        host.settled(db)
    rows = of(host, f"{db.name}.{name}")
    assert [Op(row["__op"]).name for row in rows][2:] == ["UPDATE", "UPDATE", "TRUNCATE"]
    assert rows[2][name] == 1
    assert rows[2]["v" + name[:60]] == "c%"


@BOTH
def test_a_table_that_changes_has_new_columns_from_there_on(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9))")
    with run(db.config(snapshot_mode="no_data")) as host:
        host.settled(db)
        for statement in (
            "INSERT INTO t VALUES (1, 1, 'x')",
            "ALTER TABLE t ADD COLUMN c DECIMAL(5,2) DEFAULT 1.5",
            "INSERT INTO t VALUES (2, 2, 'y', 2.5)",
            "ALTER TABLE t RENAME COLUMN a TO `a b`, MODIFY b TEXT",
            "UPDATE t SET b = 'z' WHERE id = 1",
            "ALTER TABLE t DROP COLUMN b, MODIFY `a b` BIGINT FIRST",
            "INSERT INTO t VALUES (8589934592, 3, 0)",
        ):
            db.sql(statement)
        host.settled(db)
    rows = [
        {n: v for n, v in row.items() if (not n.startswith("__") and n != "c") or n == "c"}
        for row in of(host, f"{db.name}.t")
    ]
    names = [[n for n in row if not n.startswith("__")] for row in rows]
    assert names == [["id", "a", "b"], ["id", "a", "b", "c"], ["id", "a b", "b", "c"],
                     ["a b", "id", "c"]]  # fmt: skip
    assert rows[3]["a b"] == 8589934592


def test_changes_of_schemas_are_rows_when_they_are_wanted(db, run):
    keys = {"snapshot_mode": "no_data", "include_schema_changes": "true", "topic_prefix": "p"}
    with run(db.config(**keys)) as host:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        host.until(lambda: host.rows)
    dataset, row = host.rows[0]
    assert dataset == "p"
    assert (row["table"], row["ddl"]) == ("t", "CREATE TABLE t (id INT PRIMARY KEY)")


def test_a_rename_to_a_name_that_is_not_meant_is_told(db, run, caplog):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    with run(db.config(table_include_list=rf"{db.name}\.(t|u|mark)")) as host:
        host.settled(db)
        for statement in ("t TO u", "u TO hidden", "hidden TO t"):
            db.sql(f"RENAME TABLE {statement}")
        host.settled(db)
    told = [record.message for record in caplog.records if "only one of these" in record.message]
    assert [text.split(" now")[0] for text in told] == [
        f"{db.name}.u is {db.name}.hidden", f"{db.name}.hidden is {db.name}.t",
    ]  # fmt: skip


@BOTH
def test_tables_that_are_made_later_come_from_their_first_row_on(db, run):
    with run(db.config(topic_prefix="shop")) as host:
        host.until(lambda: host.task.offsets)
        db.sql("CREATE TABLE later (id INT PRIMARY KEY)")
        db.sql("INSERT INTO later VALUES (1)")
        db.sql("RENAME TABLE later TO renamed")
        db.sql("INSERT INTO renamed VALUES (2)")
        host.until(lambda: len(host.rows) == 2)
    assert [name for name, _ in host.rows] == [f"shop.{db.name}.later", f"shop.{db.name}.renamed"]


def test_only_tables_that_are_meant(db, run):
    for name in ("orders", "orders_old", "other"):
        db.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
        db.sql(f"INSERT INTO {name} VALUES (1)")
    keys = {
        "table_include_list": rf"{db.name}\.orders.*,{db.name}\.mark",
        "table_exclude_list": r".*_old",
    }
    with run(db.config(**keys)) as host:
        host.settled(db)
        for name in ("orders", "orders_old", "other"):
            db.sql(f"INSERT INTO {name} VALUES (2)")
        host.settled(db)
    assert {name for name, _ in host.rows} == {f"{db.name}.orders", f"{db.name}.mark"}
    assert len(of(host, f"{db.name}.orders")) == 2


def test_what_is_rolled_back_never_comes(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM")
    with run(db.config(snapshot_mode="no_data")) as host:
        host.settled(db)
        db.connection.begin()
        db.sql("INSERT INTO t VALUES (1)")
        db.sql("SAVEPOINT s")
        db.sql("INSERT INTO t VALUES (2)")
        db.sql("ROLLBACK TO s")
        db.sql("INSERT INTO t VALUES (3)")
        db.connection.commit()
        db.connection.begin()
        db.sql("INSERT INTO t VALUES (4)")
        db.sql("INSERT INTO m VALUES (5)")  # has no transactions: it stays
        db.connection.rollback()
        host.settled(db)
    assert host.mirror[f"{db.name}.t"].keys() == {(1,), (3,)}
    assert host.mirror[f"{db.name}.m"].keys() == {(5,)}


@BOTH
def test_prepared_transactions_come_when_they_commit_and_only_then(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    other = db.session(db.name)
    with run(db.config(snapshot_mode="no_data")) as host:
        host.settled(db)
        for name, id_ in (("one", 1), ("two", 2)):
            for statement in (
                f"XA START '{name}'", f"INSERT INTO t VALUES ({id_}, 0)", f"XA END '{name}'",
                f"XA PREPARE '{name}'",
            ):  # fmt: skip
                other.execute(statement)
            other.close()
            other = db.session(db.name)
        db.sql("INSERT INTO t VALUES (3, 0)")
        host.settled(db)
        assert host.mirror[f"{db.name}.t"].keys() == {(3,)}
        offsets = dict(host.task.offsets)
    with run(db.config(snapshot_mode="no_data"), offsets=offsets, mirror=host.mirror) as host:
        other.execute("XA COMMIT 'one'")
        other.execute("XA ROLLBACK 'two'")
        host.settled(db)
        host.until(lambda: host.task.offsets)
        assert "prepared" not in next(iter(host.task.offsets.values()))
    other.close()
    assert host.mirror[f"{db.name}.t"].keys() == {(1,), (3,)}


@BOTH
def test_a_table_is_read_again_when_a_signal_asks_for_it(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t SELECT seq, seq FROM seq_1_to_1000")
    db.sql("CREATE TABLE penstock_signals (id VARCHAR(42) PRIMARY KEY, type TEXT, data TEXT)")
    signals = f"{db.name}.penstock_signals"
    keys = {
        "signal_data_collection": signals, "snapshot_fetch_size": 100,
        "table_exclude_list": r".*signals",
    }  # fmt: skip
    with run(db.config(**keys)) as host:
        host.settled(db)
        host.mirror[f"{db.name}.t"].clear()
        again = f'{{"data-collections": ["{db.name}.t", "no.such"], "type": "INCREMENTAL"}}'
        db.sql(
            "INSERT INTO penstock_signals VALUES ('1', 'execute-snapshot', %s), ('2', 'dance', '')",
            again,
        )
        db.sql("UPDATE t SET v = 0 WHERE id = 500")
        db.sql("DELETE FROM t WHERE id = 501")
        host.until(lambda: len(host.mirror[f"{db.name}.t"]) >= 999)
        host.settled(db)
    assert signals not in host.mirror
    assert len(host.mirror[f"{db.name}.t"]) == 999
    assert host.mirror[f"{db.name}.t"][500,]["v"] == 0


def test_rows_have_no_before_when_nobody_wants_it(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t VALUES (1, 1)")
    with run(db.config(include_before="false")) as host:
        host.until(lambda: len(host.rows) == 1)
        db.sql("UPDATE t SET v = 2")
        db.sql("UPDATE t SET id = 2")
        host.settled(db)
    rows = of(host, f"{db.name}.t")
    assert [Op(row["__op"]).name for row in rows] == ["SNAPSHOT", "UPDATE", "DELETE", "CREATE"]
    assert not any("__before" in row for row in rows)


def test_the_server_saw_no_statement_that_a_name_smuggled_in(db, run):
    log = db.server.folder / "general.log"
    db.sql("SET GLOBAL general_log_file = %s", str(log))
    db.sql("SET GLOBAL general_log = ON")
    name = "v`); DROP TABLE sentinel; -- x"
    db.sql(f"CREATE TABLE {quoted(name)} ({quoted(name)} INT PRIMARY KEY)")
    db.sql(f"INSERT INTO {quoted(name)} VALUES (1), (2), (3)")
    with run(db.config(snapshot_fetch_size=1)) as host:
        host.until(lambda: len(host.rows) == 3)
        host.settled(db)
    db.sql("SET GLOBAL general_log = OFF")
    heads = [line.split("\t")[-1].lstrip() for line in log.read_text().splitlines()]
    assert not [head for head in heads if head.upper().startswith("DROP TABLE")]
    assert any(head.startswith("SELECT") and "DROP TABLE sentinel" in head for head in heads)


def test_a_row_that_is_deleted_before_its_table_is_read_again_is_deleted(db, run, monkeypatch):
    """The chunk does not have it, and the sink does: its delete comes, though it is older."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1), (2), (3)")
    with run(db.config()) as host:
        host.until(lambda: len(host.rows) == 3)
        host.settled(db)
        offsets = {name: dict(fields) for name, fields in host.task.offsets.items()}
    for fields in offsets.values():
        fields["snapshot"] = {"work": [{"table": [db.name, "t"], "keep": True}], "windows": []}
    db.sql("DELETE FROM t WHERE id = 2")
    follow = MysqlCdc._follow

    def follow_behind_the_chunk(source, follower, snapshot):
        return Halt.EMPTY if source._progress.work else follow(source, follower, snapshot)

    monkeypatch.setattr(MysqlCdc, "_follow", follow_behind_the_chunk)
    with run(db.config(), offsets, host.mirror) as later:
        later.settled(db)
    assert "SNAPSHOT" in later.ops(f"{db.name}.t")
    assert set(later.mirror[f"{db.name}.t"]) == {(1,), (3,)}


SIGNALS = "CREATE TABLE signals (id VARCHAR(42) PRIMARY KEY, type TEXT, data TEXT)"


def send(db, kind, data="{}"):
    db.sql("INSERT INTO signals VALUES (UUID(), %s, %s)", kind, data)


@BOTH
def test_only_rows_that_meet_the_condition_of_a_signal_are_read(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    db.sql("INSERT INTO t SELECT seq, seq %% 10 FROM seq_1_to_1000")
    db.sql(SIGNALS)
    signals = f"{db.name}.signals"
    with run(db.config(signal_data_collection=signals, snapshot_fetch_size=50)) as host:
        host.until(lambda: len(host.rows) >= 1000)
        host.settled(db)  # a signal joins the first snapshot while that is not over
        start = len(host.rows)
        condition = f'{{"data-collection": "{db.name}.t", "filter": "v = 3 OR v LIKE \'7%\'"}}'
        data = f'{{"data-collections": [".*[.]t"], "additional-conditions": [{condition}]}}'
        send(db, "execute-snapshot", data)
        host.until(lambda: len(of_rows(host, start, f"{db.name}.t")) >= 200)
        host.settled(db)
    again = of_rows(host, start, f"{db.name}.t")
    assert sorted(row["id"] for row in again) == [n for n in range(1001) if n % 10 in {3, 7}]


def of_rows(host, start, dataset):
    return [row for name, row in host.rows[start:] if name == dataset]


def test_a_reading_is_paused_over_a_restart_and_goes_on(db, run, monkeypatch):
    """Between two marks the task looks which chunk it could begin."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t SELECT seq FROM seq_1_to_1000")
    db.sql(SIGNALS)
    config = db.config(signal_data_collection=f"{db.name}.signals")
    begun, chunk = [], MysqlCdc._chunk

    def counted(source, *args):
        begun.append(args)
        return chunk(source, *args)

    with run(config) as host:
        host.until(lambda: len(host.rows) >= 1000)
        host.settled(db)
        monkeypatch.setattr(MysqlCdc, "_chunk", counted)
        db.sql("BEGIN")
        send(db, "execute-snapshot", f'{{"data-collections": ["{db.name}.t"]}}')
        send(db, "pause-snapshot")
        db.sql("COMMIT")
        host.settled(db)
        host.settled(db)
        assert not begun
        offsets = host.task.offsets
    assert next(iter(offsets.values()))["snapshot"]["paused"]
    with run(config, offsets) as later:
        later.settled(db)
        later.settled(db)
        assert not begun
        send(db, "resume-snapshot")
        later.until(lambda: len(of_rows(later, 0, f"{db.name}.t")) >= 1000)


@BOTH
def test_a_signal_is_obeyed_once_while_its_table_waits_to_be_read(db, run, monkeypatch, caplog):
    """Its row in the log is left out, since the chunk has it."""
    caplog.set_level(logging.INFO)
    db.sql("CREATE TABLE signals (id INT PRIMARY KEY, type TEXT, data TEXT)")
    with (
        monkeypatch.context() as held,
        run(db.config(signal_data_collection=f"{db.name}.signals")) as host,
    ):
        held.setattr(Snapshot, "start", lambda *_: None)
        host.until(lambda: host.task.offsets)
        message = '{"message": "the copy begins"}'
        db.sql("INSERT INTO signals VALUES (1, 'log', %s)", message)
        host.until(lambda: "signal: the copy begins" in caplog.text)
        held.undo()
        host.until(lambda: host.rows)
        db.sql("UPDATE signals SET data = '{}'")
        host.settled(db)
    assert caplog.text.count("signal: ") == 1
    assert set(host.mirror[f"{db.name}.signals"]) == {(1,)}
    if not db.is_mysql:
        assert host.ops(f"{db.name}.signals") == ["SNAPSHOT", "UPDATE"]


@BOTH
def test_lines_of_a_file_are_signals_and_each_is_obeyed_once_over_a_restart(db, run, tmp_path):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1), (2), (3)")
    path = tmp_path / "signals.txt"
    config = db.config(
        signal_enabled_channels="file", signal_file=path, signal_poll_interval_ms="50ms"
    )
    data = f'{{"data-collections": ["{db.name}.t"]}}'
    line = f'{{"id": "1", "type": "execute-snapshot", "data": {data}}}'
    with run(config) as host:
        host.until(lambda: len(host.rows) == 3)
        host.settled(db)
        path.write_text(f"{line}\n")
        host.until(lambda: len(of_rows(host, 0, f"{db.name}.t")) == 6)
        host.settled(db)
        offsets = host.task.offsets
    assert next(iter(offsets.values()))["signals"]["file"][0] == len(line) + 1
    with run(config, offsets) as later:
        later.settled(db)
        assert not of_rows(later, 0, f"{db.name}.t")
        with path.open("a") as file:
            file.write(f"{line}\n")
        later.until(lambda: len(of_rows(later, 0, f"{db.name}.t")) == 3)


@BOTH
def test_a_filter_may_ask_another_table(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1), (2), (3), (4)")
    db.sql("INSERT INTO u VALUES (2), (4)")
    db.sql(SIGNALS)
    with run(db.config(signal_data_collection=f"{db.name}.signals")) as host:
        host.until(lambda: len(host.rows) == 6)
        host.settled(db)
        start = len(host.rows)
        condition = f'{{"data-collection": ".*", "filter": "id IN (SELECT id FROM {db.name}.u)"}}'
        named = f'"data-collections": ["{db.name}.t"]'
        send(db, "execute-snapshot", f'{{{named}, "additional-conditions": [{condition}]}}')
        host.until(lambda: len(of_rows(host, start, f"{db.name}.t")) == 2)
        host.settled(db)
    assert sorted(row["id"] for row in of_rows(host, start, f"{db.name}.t")) == [2, 4]


@BOTH
def test_a_table_of_signals_that_is_not_there_is_named_with_what_makes_it(db, run, caplog):
    """It is found when it comes."""
    caplog.set_level(logging.INFO)
    with run(db.config(signal_data_collection=f"{db.name}.signals")) as host:
        host.settled(db)
        (told,) = {r.message for r in caplog.records if "signal.data.collection" in r.message}
        db.sql(told.partition("Run: ")[2])
        send(db, "log", '{"message": "found"}')
        host.until(lambda: "signal: found" in caplog.text)
    with run(db.config(signal_data_collection=f"{db.name}.signals")) as host:
        caplog.clear()
        host.settled(db)
    assert "signal.data.collection" not in caplog.text


@BOTH
def test_a_signal_that_is_sent_is_a_row_of_the_table_and_obeyed_once(db, run, caplog):
    caplog.set_level(logging.INFO)
    config = db.config(signal_data_collection=f"{db.name}.signals")
    with pytest.raises(RemoteError, match=r"sql\.no_table"):
        send_signal(MysqlCdc, config, {"id": "1", "type": "log"})
    db.sql(SIGNALS)
    with run(config) as host:
        host.settled(db)
        hello = {"id": "1", "type": "log", "data": {"message": "it's 100% „hello“"}}
        assert send_signal(MysqlCdc, config, hello) == f"{db.name}.signals"
        host.until(lambda: "signal: it's 100% „hello“" in caplog.text)
        assert send_signal(MysqlCdc, config, hello) == f"{db.name}.signals", "it is there"
        send_signal(MysqlCdc, config, {"id": "2", "type": "log", "data": {"message": "end"}})
        host.until(lambda: "signal: end" in caplog.text)
    assert caplog.text.count("hello") == 1
    with pytest.raises(RemoteError, match="'dance' is not supported"):
        send_signal(MysqlCdc, config, {"id": "3", "type": "dance"})
    for keys, fix in (
        ({}, "set signal.data.collection=shop.signals"),
        ({"signal_data_collection": "a.b", "signal_enabled_channels": "file"}, "Add `source`"),
    ):
        with pytest.raises(RemoteError, match=r"cdc\.signal_table") as caught:
            send_signal(MysqlCdc, db.config(**keys), hello)
        assert fix in caught.value.diagnostic.fix
