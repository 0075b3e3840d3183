"""Connectors of databases keep to the hosts and folders that they are told."""

import sqlite3

import pytest

from penstock_connector import ConnectorError
from penstock_connector._config import read_config
from penstock_connector._connectors import spec_of
from penstock_databases import CONNECTORS
from penstock_databases.databend_sink import DatabendSink
from penstock_databases.dialect import Login
from penstock_databases.jdbc_sink import JdbcSink
from penstock_databases.jdbc_source import JdbcSource
from penstock_databases.mysql_cdc import MysqlCdc
from penstock_databases.postgres_cdc import PostgresCdcSource
from penstock_databases.sqlite.connection import SqliteConnection
from penstock_databases.url import parse_url

URL = "connection.url"
HOSTS = "*.team.example,10.1.0.0/16"


def found(connector, folders, hosts, config):
    """What is found of a configuration, of what it may reach: codes and keys."""
    more = {"mode": "bulk"} if connector is JdbcSource else {}
    told = {"reach.folders": folders, "reach.hosts": hosts}
    _, errors = read_config(connector.config_type, {**config, **more, **told})
    return [(error.code, error.config_path) for error in errors]


@pytest.mark.parametrize("connector", CONNECTORS)
def test_every_connector_keeps_to_it(connector):
    assert spec_of(connector).enforces_reach


@pytest.mark.parametrize(
    ("connector", "config", "code", "path"),
    [
        (JdbcSource, {URL: "jdbc:sqlite:/var/lib/penstock/state.db"}, "reach.folder", URL),
        (JdbcSink, {URL: "jdbc:sqlite:/var/lib/penstock/state.db"}, "reach.folder", URL),
        (JdbcSource, {URL: "jdbc:sqlite:{in}/../state.db"}, "reach.folder", URL),
        (JdbcSource, {URL: "jdbc:mysql://db.other.example/x"}, "reach.host", URL),
        (JdbcSource, {URL: "jdbc:postgresql://db.team.example,localhost/x"}, "reach.host", URL),
        (JdbcSink, {URL: "jdbc:postgresql://10.2.0.1/x"}, "reach.host", URL),
        (JdbcSource, {URL: "jdbc:postgresql://10.1.0.1/x?sslrootcert=/etc/shadow"},
         "reach.folder", URL),
        (JdbcSource, {URL: "jdbc:oracle:thin:@db.team.example:1521/x"}, "reach.url", URL),
        (MysqlCdc, {"database.hostname": "localhost"}, "reach.host", "database.hostname"),
        (MysqlCdc, {URL: "jdbc:mysql://localhost/"}, "reach.host", URL),
        (PostgresCdcSource, {"database.hostname": "localhost", "database.dbname": "x"},
         "reach.host", "database.hostname"),
        (PostgresCdcSource, {"database.hostname": "db.team.example", "database.dbname": "x",
                       "database.sslkey": "/etc/shadow"}, "reach.folder", "database.hostname"),
        (DatabendSink, {URL: "jdbc:databend://localhost:8000/x"}, "reach.host", URL),
        (DatabendSink, {URL: "databend+local:///var/lib/penstock"}, "reach.folder", URL),
    ],
)  # fmt: skip
def test_a_database_outside_is_refused_by_its_key(tmp_path, connector, config, code, path):
    config = {key: value.replace("{in}", str(tmp_path)) for key, value in config.items()}
    assert found(connector, str(tmp_path), HOSTS, config) == [(code, path)]
    assert not any(code.startswith("reach.") for code, _ in found(connector, "*", "*", config))


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:sqlite:{in}/a.db",
        "jdbc:mysql://db.team.example,10.1.2.3:3307/x",
        "jdbc:postgresql://db.team.example/x?sslrootcert={in}/ca.pem",
    ],
)
def test_a_database_inside_is_taken(tmp_path, url):
    config = {URL: url.replace("{in}", str(tmp_path))}
    assert found(JdbcSource, str(tmp_path), HOSTS, config) == []


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH '{out}' AS other",
        "ATTACH ('{out}' || '') AS other",
        "VACUUM INTO '{out}'",
    ],
)
def test_a_statement_opens_no_other_file(tmp_path, statement):
    out = tmp_path / "out.db"
    sqlite3.connect(out).close()
    connection = SqliteConnection(parse_url(f"jdbc:sqlite:{tmp_path}/a.db"), Login("", ""))
    connection.execute("CREATE TABLE t (id INTEGER)")
    with pytest.raises(ConnectorError, match="authoriz"):
        connection.execute(statement.replace("{out}", str(out)))
    connection.execute("VACUUM")
    connection.close()
