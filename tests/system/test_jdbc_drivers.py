"""A database that only a Java driver knows, at the source's end of a whole pipeline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock_databases.dialect import Login
from penstock_databases.java import drivers
from penstock_databases.java.connection import JavaConnection
from penstock_databases.java.url import any_url
from support.derby import close_derby, derby_jars, make_derby
from support.standalone import Standalone

pytestmark = pytest.mark.timeout(300)

PLUGIN = """
name = "derby"
version = "1.0.0"
command = ["{python}", "-P", "-m", "penstock_databases", "--drivers", "{folder}"]

[[connector]]
name = "jdbc-source"
kind = "source"
"""


def test_rows_come_through_a_driver_once_and_in_order(tmp_path: Path) -> None:
    """The plugin's own JVM has the driver; Penstock is killed half way."""
    plugin = tmp_path / "plugins" / "derby"
    plugin.mkdir(parents=True)
    (plugin / "plugin.toml").write_text(PLUGIN)
    drivers.look_in([str(derby_jars(plugin))])
    url = make_derby(tmp_path / "shop")
    made = JavaConnection(any_url(url), Login())
    made.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(20), price DECIMAL(9,2))")
    for start in range(0, 3000, 500):
        rows = ", ".join(f"({n}, 'n{n}', {n}.25)" for n in range(start, start + 500))
        made.execute(f"INSERT INTO t VALUES {rows}")
    made.close()
    close_derby(url)

    target = tmp_path / "out.jsonl"
    read = {
        "connector.class": "derby/jdbc-source", "connection.url": url, "mode": "incrementing",
        "incrementing.column.name": "ID", "batch.max.rows": 200,
    }  # fmt: skip
    write = {"connector.class": "file-sink", "topics": "T", "file": target, "format": "jsonl"}
    settings = {"plugin.path": tmp_path / "plugins"}

    def found() -> list[int]:
        lines = target.read_text().splitlines() if target.exists() else []
        return [json.loads(line)["ID"] for line in lines]

    with Standalone(tmp_path / "node", settings, read=read, write=write) as node:
        node.wait_for(found, "the first rows")
        node.process.kill()
    with Standalone(tmp_path / "node", settings, read=read, write=write) as node:
        node.wait_for(lambda: len(found()) >= 3000, "all rows")
        assert node.written("write") <= 3000
    assert found() == list(range(3000))
    assert json.loads(target.read_text().splitlines()[7]) == {"ID": 7, "NAME": "n7", "PRICE": 7.25}
