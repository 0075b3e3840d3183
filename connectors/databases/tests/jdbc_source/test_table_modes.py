"""Tables of one connector are read in modes of their own."""

import logging

import pytest

from penstock_connector import ConfigError, Partition
from penstock_connector.testing import plan, source_task
from penstock_databases.jdbc_source import JdbcSource, JdbcSourceConfig
from penstock_databases.jdbc_source.relation import no_incrementing_column
from penstock_databases.jdbc_source.table_modes import find_mode, parse_table_modes
from penstock_databases.jdbc_source.tables import config_of

URL = "jdbc:postgresql://localhost/d"


def parsed(text):
    (one,) = parse_table_modes([text])
    return one.mode, one.timestamp_columns, one.incrementing_column


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("t=bulk", ("bulk", (), "")),
        ("t = incrementing", ("incrementing", (), "")),
        ("t=incrementing(seq)", ("incrementing", (), "seq")),
        ("t=timestamp(changed made)", ("timestamp", ("changed", "made"), "")),
        ("t=timestamp+incrementing", ("timestamp+incrementing", (), "")),
        ("t=timestamp(at)+incrementing( id )", ("timestamp+incrementing", ("at",), "id")),
        ("t=timestamp+incrementing(id)", ("timestamp+incrementing", (), "id")),
    ],
)
def test_a_mode_may_name_its_columns(text, found):
    assert parsed(text) == found


@pytest.mark.parametrize(
    "text",
    ["t", "=bulk", "t=", "t=all", "t=bulk(id)", "t=incrementing()", "t=incrementing(a", "t=BULK"],
)
def test_what_is_no_mode_is_refused(text):
    with pytest.raises(ConfigError, match="no table with its mode") as refused:
        parse_table_modes([text])
    assert refused.value.config_path == "table.modes"


def test_the_first_pattern_that_fits_counts():
    modes = parse_table_modes(["public\\.a.*=bulk", "ab=incrementing"])
    assert find_mode(modes, ["public.ab", "ab"]).mode == "bulk"
    assert find_mode(modes, ["crm.ab", "ab"]).mode == "incrementing"
    assert find_mode(modes, ["public.b", "b"]) is None


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"table_modes": ("t=timestamp",)}, "timestamp.column.name"),
        ({"table_modes": ("t=bulk",), "query": "SELECT 1"}, "table.modes"),
        ({"table_modes": ("(o|oo)+=bulk", "t")}, "table.modes"),
    ],
)
def test_modes_that_mean_nothing_are_refused(keys, path):
    with pytest.raises(ConfigError) as refused:
        JdbcSourceConfig(connection_url=URL, mode="bulk", **keys)
    assert refused.value.config_path == path


def mixed(database):
    """Tables with a number, with a time only, and with neither."""
    auto = {"mysql": "INT AUTO_INCREMENT PRIMARY KEY", "postgresql": "serial PRIMARY KEY"}
    database.sql(f"CREATE TABLE a (id {auto.get(database.kind, 'INTEGER PRIMARY KEY')}, n INT)")
    database.sql("CREATE TABLE b (n INTEGER, at TIMESTAMP NOT NULL)")
    database.sql("CREATE TABLE c (n INTEGER)")
    for table in "abc":
        at = ", '2024-01-01 10:00:00'" if table == "b" else ""
        columns = "(n, at)" if at else "(n)"
        database.sql(f"INSERT INTO {table} {columns} VALUES (1{at})")


def copied(database, offsets=None, **keys):
    with source_task(
        JdbcSource, database.keys(**keys), offsets=offsets, until_caught_up=True
    ) as task:
        found = [row["n"] for row in task.all_rows()]
        task.commit()
        return found, task.offsets


def test_a_whole_database_of_mixed_tables_is_one_connector(database):
    mixed(database)
    keys = {"mode": "incrementing", "table_modes": "b=timestamp(at),c=bulk"}
    found, offsets = copied(database, **keys)
    assert found == [1, 1, 1]
    database.sql("INSERT INTO a (n) VALUES (2)")
    database.sql("INSERT INTO b (n, at) VALUES (3, '2024-01-02 10:00:00')")
    database.sql("INSERT INTO c (n) VALUES (4)")
    found, _ = copied(database, offsets, **keys)
    assert sorted(found) == [1, 2, 3, 4], "the bulk table is read anew, the others are not"


def test_all_tables_that_need_another_mode_are_named_with_what_to_write(database):
    mixed(database)
    keys = {"connection_url": database.url, "connection_user": database.login.user}
    keys |= {"connection_password": database.login.password, "mode": "incrementing"}
    with pytest.raises(ConfigError) as refused:
        JdbcSource.check(JdbcSourceConfig(**keys))
    assert refused.value.code == "jdbc.no_incrementing_column"
    text = refused.value.fix.split("`table.modes: ")[1].split("`")[0]
    modes = tuple(text.split(", "))
    assert {mode.split(".")[-1] for mode in modes} == {"b=bulk", "c=bulk"}
    JdbcSource.check(JdbcSourceConfig(**keys, table_modes=modes))


def test_names_that_are_no_patterns_of_themselves_are_escaped_in_what_to_write():
    names = ["shop.countries", "public.a$b", "public.(x", "public.a,b", "public.order items"]
    fix = no_incrementing_column(names).fix
    text = fix.split("`table.modes: ")[1].split("`")[0]
    first, *_ = texts = text.split(", ")
    assert first == "shop.countries=bulk"
    modes = parse_table_modes(texts)
    assert [one.pattern.matches(name) for one, name in zip(modes, names, strict=True)] == [True] * 5
    assert "reads all rows each time" in fix
    assert "`insert.mode: upsert`" in fix


def test_a_mode_that_no_table_has_is_told(database, caplog):
    mixed(database)
    with caplog.at_level(logging.WARNING):
        plan(JdbcSource, database.keys(mode="bulk", table_modes="a=incrementing,gone=bulk"))
    assert [r.getMessage() for r in caplog.records if "table.modes" in r.getMessage()] == [
        "table.modes: no table has its mode by 'gone=bulk'"
    ]


def test_a_mode_is_of_its_table_alone():
    config = JdbcSourceConfig(connection_url=URL, mode="bulk", table_modes=("t=incrementing(seq)",))
    of = config_of(config, Partition({"table": "public.t"}))
    assert (of.mode, of.incrementing_column_name, of.poll_every) == ("incrementing", "seq", 0.05)
    assert config_of(config, Partition({"table": "public.u"})) is config
