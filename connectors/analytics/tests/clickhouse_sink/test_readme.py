"""The example of the README runs: changes come out of a file, and are rows of a table."""

import json
import re
from pathlib import Path

import pytest
import yaml

from penstock_analytics import clickhouse_sink
from support.clickhouse import PASSWORD
from support.processes import PLAIN
from support.standalone import Standalone

README = Path(clickhouse_sink.__file__).with_name("README.md").read_text(encoding="utf-8")


def example():
    """The keys of the sink, as they stand in the README."""
    (block,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    keys = yaml.safe_load(block)["sink"]
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in keys.items()
    }


def test_the_first_line_says_what_it_was_run_against():
    assert "chdb" in README.splitlines()[1]
    assert "never against a current server" in README.splitlines()[1]


@pytest.mark.timeout(180)
def test_the_example_writes_rows_and_leaves_bad_ones_out(place, tmp_path):
    place.sql(
        "CREATE TABLE {d}.items (id Int64, n Nullable(Int8), _version UInt64, is_deleted UInt8) "
        "ENGINE ReplacingMergeTree(_version, is_deleted) ORDER BY id"
    )
    rows = [{"id": 1, "n": 1}, {"id": 2, "n": 300}, {"id": 3, "n": 3}, {"id": 1, "n": 4}]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "in.jsonl").write_text(lines, encoding="utf-8")
    sink = example() | {
        "hostname": "127.0.0.1",
        "port": place.server.port,
        "password": PASSWORD,
        "database": place.database,
        "topics": "items",
        "errors.tolerance": "all",
    }
    source = {
        "connector.class": "file-source",
        "file": f"{tmp_path}/in.jsonl",
        "format": "jsonl",
        "topic": "items",
        "tail": "false",
    }
    with Standalone(tmp_path / "node", module=PLAIN, source=source, sink=sink) as node:
        node.wait_for(lambda: place.rows("items"), "rows in the table")
        node.process.stop()
    assert place.rows("items", "id", "id, n") == [(1, 4), (3, 3)]
