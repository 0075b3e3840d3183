"""A converter of a plugin between rows and the messages of a broker: called by the plugin of the
broker, killed in the middle of a batch, and right about what is no message of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.kafka import KafkaServer
from support.standalone import Standalone

PLUGIN = '''
"""Writes `key=value` texts backwards; ends by itself, once, in the middle of a batch."""

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock_connector import Converter, DataError, Transformed, key, serve


@dataclass(frozen=True)
class BackwardsConfig:
    """Keys."""

    end: str = key(doc="What ends every message.", required=True)
    once: str = key("", doc="A file that is made when the process ends by itself.")


class Backwards(Converter[BackwardsConfig]):
    """Texts from their end."""

    name = "backwards"
    aliases = ("com.acme.Backwards",)

    def decode(self, data):
        rows, failed = [], []
        for at, value in enumerate(data.to_pylist()):
            text = value.decode()
            if text.endswith(self.config.end):
                rows.append({"line": text[: -len(self.config.end)][::-1]})
            else:
                failed.append((at, DataError("backwards.no_end", f"{text!r} has no end")))
        return Transformed(pa.RecordBatch.from_pylist(rows), None, (), failed)

    def encode(self, rows):
        if self.config.once and not Path(self.config.once).exists():
            Path(self.config.once).touch()
            os._exit(3)
        texts = [line[::-1] + self.config.end for line in rows.column(0).to_pylist()]
        return pa.array(texts).cast(pa.binary())


serve(Backwards)
'''

MANIFEST = """
name = "acme"
version = "1.0.0"
command = ["{python}", "{folder}/backwards.py"]
connector = [{ name = "backwards", kind = "converter", aliases = ["com.acme.Backwards"] }]
"""


def converter(**keys: object) -> dict[str, object]:
    named = {f"value.converter.{key}": value for key, value in keys.items()}
    return {"value.converter": "com.acme.Backwards", **named}


@pytest.mark.timeout(300)
def test_messages_are_converted_by_a_plugin_that_ends_in_mid_batch(tmp_path: Path) -> None:
    plugin = tmp_path / "plugins" / "acme"
    plugin.mkdir(parents=True)
    (plugin / "backwards.py").write_text(PLUGIN, encoding="utf-8")
    (plugin / "plugin.toml").write_text(MANIFEST, encoding="utf-8")
    (tmp_path / "in.txt").write_text("abc\nde\n", encoding="utf-8")
    out, once = tmp_path / "out", tmp_path / "once"
    with KafkaServer(tmp_path / "kafka") as kafka:
        kafka.create_topic("lines")
        node = {"bootstrap.servers": kafka.bootstrap, "plugin.path": tmp_path / "plugins"}
        with Standalone(
            tmp_path / "node",
            node,
            read={
                "connector.class": "file-source",
                "file": tmp_path / "in.txt",
                "topic": "lines",
                **converter(end="!", once=once),
            },
            write={
                "connector.class": "file-sink",
                "path": out,
                "format": "jsonl",
                "topics": "lines",
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": "dead",
                "errors.deadletterqueue.topic.replication.factor": "1",
                **converter(end="!"),
            },
        ) as running:
            running.wait_for(lambda: len(kafka.read("lines")) == 2, "two messages")
            assert once.exists(), "the converter's process did not end"
            kafka.produce("lines", [(None, b"no end"), (None, b"gf!")])
            running.wait_for(lambda: len(_rows(out)) == 3, "three rows")
            running.wait_for(lambda: "dead" in kafka.admin().list_topics().topics, "a dead letter")
            running.wait_for(lambda: kafka.read("dead"), "a dead letter")
        assert [one.value() for one in kafka.read("lines")] == [b"cba!", b"ed!", b"no end", b"gf!"]
        assert [one.value() for one in kafka.read("dead")] == [b"no end"]
    assert _rows(out) == ["abc", "de", "fg"]


def _rows(folder: Path) -> list[str]:
    lines = [line for file in folder.glob("**/*.jsonl") for line in file.read_text().splitlines()]
    return sorted(json.loads(line)["line"] for line in lines)
