"""Tables are found, named and left out as the keys say, while it runs, too."""

import pytest

from penstock_connector import ConfigError, Partition, partition_id
from penstock_connector.tables.names import TableId
from penstock_connector.testing import list_datasets, plan, source_monitor, validate
from penstock_databases import names
from penstock_databases.jdbc_source import JdbcSource, JdbcSourceConfig
from penstock_databases.jdbc_source.tables import chosen, table_of, text_of

URL = "jdbc:postgresql://localhost/d"
TABLES = [
    TableId("orders", schema="public"),
    TableId("Orders", schema="public"),
    TableId("users", schema="public"),
    TableId("users", schema="crm"),
    TableId("odd.name", schema='a"b'),
]


def config(**keys):
    return JdbcSourceConfig(connection_url=URL, mode="bulk", **keys)


def names_of(**keys):
    return [text_of(table, names.POSTGRESQL) for table in chosen(config(**keys), TABLES)]


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({}, ["public.orders", "public.Orders", "public.users", "crm.users", '"a""b"."odd.name"']),
        ({"table_whitelist": ("orders",)}, ["public.orders"]),
        ({"table_whitelist": ("ORDERS",)}, ["public.orders", "public.Orders"]),
        ({"table_whitelist": ("users",)}, ["public.users", "crm.users"]),
        ({"table_whitelist": ("crm.users",)}, ["crm.users"]),
        ({"table_whitelist": ('"a""b"."odd.name"',)}, ['"a""b"."odd.name"']),
        ({"table_whitelist": ('"odd.name"', "crm.Users")}, ["crm.users", '"a""b"."odd.name"']),
        ({"table_blacklist": ("users", '"odd.name"')}, ["public.orders", "public.Orders"]),
        ({"schema_pattern": "c%"}, ["crm.users"]),
        ({"schema_pattern": "cr_"}, ["crm.users"]),
        ({"schema_pattern": "c.m"}, []),
        ({"table_include_list": ("public\\..*",), "table_exclude_list": ("users",)},
         ["public.orders", "public.Orders"]),
    ],
)  # fmt: skip
def test_keys_choose_tables(keys, wanted):
    assert names_of(**keys) == wanted


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"table_include_list": ("(o|oo)+",)}, "table.include.list"),
        ({"table_exclude_list": ("(o|oo)+",)}, "table.exclude.list"),
    ],
)
def test_a_pattern_that_a_name_takes_for_ever_with_is_named(keys, path):
    table = TableId("o" * 60 + "!", schema="o" * 60 + "!")
    with pytest.raises(ConfigError) as raised:
        chosen(config(**keys), [table])
    assert (raised.value.code, raised.value.config_path) == ("config.slow_pattern", path)


def test_a_pattern_of_jdbc_with_many_signs_is_answered():
    table = TableId("t", schema="o" * 60 + "!")
    assert chosen(config(schema_pattern="%o" * 20 + "x"), [table]) == []


@pytest.mark.parametrize("naming", [names.MYSQL, names.POSTGRESQL, names.SQLITE])
@pytest.mark.parametrize("name", ["t", "a.b", 'q"q', "b`b", "per%cent", "sp ace", "é"])
def test_a_partition_names_its_table(naming, name):
    table = TableId(name, catalog="d.b") if naming is names.MYSQL else TableId(name, schema="s.s")
    key = {"table": text_of(table, naming)}
    assert table_of(Partition(key), naming) == table


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"table_whitelist": ("a",), "table_blacklist": ("b",)}, "table.blacklist"),
        ({"query": "SELECT 1", "table_whitelist": ("b",)}, "query"),
        ({"dialect_name": "MySqlDatabaseDialect"}, "dialect.name"),
        ({"table_include_list": ("(",)}, "table.include.list"),
        ({"db_timezone": "Nowhere/At_All"}, "db.timezone"),
        ({"batch_max_rows": 0}, "batch.max.rows"),
    ],
)
def test_keys_that_mean_nothing_are_refused(keys, path):
    with pytest.raises(ConfigError) as raised:
        config(**keys)
    assert raised.value.config_path == path


def test_a_mode_by_time_needs_its_column():
    with pytest.raises(ConfigError, match=r"timestamp\.column\.name"):
        JdbcSourceConfig(connection_url=URL, mode="timestamp")


def test_keys_are_kafka_connects():
    given = {
        "connection.url": URL, "connection.user": "u", "connection.password": "p",
        "connection.attempts": "3", "connection.backoff.ms": "10000", "mode": "timestamp",
        "timestamp.column.name": "a,b", "validate.non.null": "false", "poll.interval.ms": "5000",
        "timestamp.delay.interval.ms": "0", "timestamp.initial": "-1", "table.types": "TABLE,VIEW",
        "table.poll.interval.ms": "60000", "table.whitelist": "a, b", "schema.pattern": "public",
        "catalog.pattern": "x", "query.suffix": "", "batch.max.rows": "100", "topic.prefix": "p-",
        "numeric.mapping": "best_fit", "db.timezone": "UTC", "quote.sql.identifiers": "always",
        "dialect.name": "PostgreSqlDatabaseDialect",
    }  # fmt: skip
    assert validate(JdbcSource, given) == []


def test_the_password_is_not_shown():
    made = config(connection_password="s3cret", connection_user="u")
    assert "s3cret" not in repr(made) + repr(made.login) + str(made.target)


def test_tables_come_and_go_while_it_runs(database):
    database.sql("CREATE TABLE a (id INT)")
    keys = {**database.keys(mode="bulk"), "table.poll.interval.ms": "100"}
    first = plan(JdbcSource, keys)
    with source_monitor(JdbcSource, keys, first) as monitor:
        database.sql("CREATE TABLE b (id INT)")
        assert monitor.replan() == "1 partitions appeared, 0 are gone"
        second = plan(JdbcSource, keys)
        assert [p.datasets for p in second] == [("a",), ("b",)]
        monitor.tell(second)
        database.sql("DROP TABLE a")
        while monitor.replan() != "0 partitions appeared, 1 are gone":
            pass  # said before it was told


def test_a_plan_is_the_same_each_time(database):
    for name in ("a", "b.b", 'c`"c'):
        database.sql(f"CREATE TABLE {database.quoted(name)} (id INT)")
    keys = database.keys(mode="bulk", topic_prefix="p-")
    first, second = plan(JdbcSource, keys), plan(JdbcSource, keys)
    assert [p.id for p in first] == [p.id for p in second]
    assert {p.datasets[0] for p in first} == {"p-a", "p-b.b", 'p-c`"c'}


def test_a_query_is_a_partition(sqlite):
    keys = sqlite.keys(mode="bulk", query="SELECT 1 AS x", topic_prefix="ones")
    (partition,) = plan(JdbcSource, keys)
    assert set(partition.key) == {"query"}
    assert partition.datasets == ("ones",)
    assert partition.id == partition_id(partition.key)


def test_check_tells_of_missing_tables(sqlite):
    made = JdbcSourceConfig(connection_url=sqlite.url, mode="bulk", table_whitelist=("none",))
    with pytest.raises(ConfigError, match=r"jdbc\.no_tables"):
        JdbcSource.check(made)


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"mode": "incrementing"}, "jdbc.no_incrementing_column"),
        ({"mode": "incrementing", "incrementing.column.name": "no"}, "jdbc.no_column"),
        ({"mode": "incrementing", "incrementing.column.name": "n"}, "jdbc.nullable_column"),
        ({"mode": "timestamp", "timestamp.column.name": "at"}, "jdbc.nullable_column"),
        ({"mode": "timestamp", "timestamp.column.name": "name"}, "jdbc.bad_timestamp"),
    ],
)
def test_check_tells_of_unfit_columns(server_database, keys, code):
    null = "NULL" if server_database.kind == "mysql" else ""
    server_database.sql(f"CREATE TABLE t (n INT, name VARCHAR(9) NOT NULL, at TIMESTAMP {null})")
    from penstock_connector import ConnectorError
    from penstock_connector._config import parse_config

    made = parse_config(JdbcSourceConfig, {**server_database.keys(), **keys})
    with pytest.raises(ConnectorError) as raised:
        JdbcSource.check(made)
    assert raised.value.code == code


def described(found):
    """Datasets as texts: their columns, with `!` behind those that cannot be null."""
    return {
        one.name: (
            one.dataset,
            [f"{f.name} {f.type}{'' if f.nullable else '!'}" for f in one.schema],
            tuple(one.key_columns),
            one.selected,
        )
        for one in found
    }


def test_tables_are_listed_with_their_columns_whether_they_are_read_or_not(database):
    database.sql(
        f"CREATE TABLE {database.quoted('a.b')} (id INTEGER NOT NULL, part INTEGER NOT NULL, "
        "name VARCHAR(20), PRIMARY KEY (part, id))"
    )
    database.sql("CREATE TABLE other (d DECIMAL(9, 0))")
    keys = database.keys(mode="bulk", topic_prefix="shop.", table_whitelist="other")
    found = described(list_datasets(JdbcSource, keys))
    place = text_of(TableId("other", *where(database)), database.dialect.naming)
    assert found[place] == ("shop.other", ["d decimal128(9, 0)"], (), True)
    del found[place]
    ((name, listed),) = found.items()
    assert "a.b" in name
    kind = "int64" if database.kind == "sqlite" else "int32"
    assert listed == (
        "shop.a.b", [f"id {kind}!", f"part {kind}!", "name string"], ("part", "id"), False,
    )  # fmt: skip
    keys = database.keys(mode="bulk", numeric_mapping="best_fit", table_whitelist="other")
    assert described(list_datasets(JdbcSource, keys))[place][1] == ["d int32"]


def where(database):
    """The schema and the catalog of the tables of a database."""
    if database.kind == "postgresql":
        return "public", ""
    return "", database.target.database if database.kind == "mysql" else ""


def test_a_query_is_listed_as_one_dataset(sqlite):
    keys = sqlite.keys(mode="bulk", query="SELECT 1 AS n", topic_prefix="numbers")
    (found,) = list_datasets(JdbcSource, keys)
    assert (found.name, found.dataset, found.schema.names) == ("query", "numbers", ["n"])
