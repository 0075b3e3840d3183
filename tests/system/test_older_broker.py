"""A broker that is years older than the client: Kafka's test_broker_compatibility.

3.3 is the first release that runs without ZooKeeper in production.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from support.kafka import KafkaServer
from support.processes import PLAIN
from support.standalone import Standalone

OLDEST: Final = "3.3.2"
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
FORMS: Final = ("true", "false")

pytestmark = pytest.mark.timeout(300)


def append(file: Path, *lines: str) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.writelines(f"{line}\n" for line in lines)


def test_broker_compatibility(tmp_path: Path) -> None:
    """Lines of a file go into topics and out of them exactly once, with schemas and without, also
    behind a kill of the node.
    """
    read = tmp_path / "read"
    written = {form: tmp_path / f"written-{form}" for form in FORMS}
    append(read, "first", "second")
    connectors: dict[str, dict[str, object]] = {}
    for form in FORMS:
        keys = {"value.converter": JSON, "value.converter.schemas.enable": form}
        connectors[f"source-{form}"] = {
            "connector.class": "FileStreamSource",
            "file": read,
            "topic": f"lines-{form}",
            "exactly.once.support": "required",
            "topic.creation.default.partitions": 1,
            "topic.creation.default.replication.factor": 1,
            **keys,
        }
        connectors[f"sink-{form}"] = {
            "connector.class": "FileStreamSink",
            "file": written[form],
            "topics": f"lines-{form}",
            "delivery": "exactly-once",
            **keys,
        }

    def lines(form: str) -> list[str]:
        file = written[form]
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    first, later = ["first", "second"], ["first", "second", "third"]
    with KafkaServer(tmp_path / "kafka", OLDEST) as kafka:
        node = {"bootstrap.servers": kafka.bootstrap, "topics.backend": "kafka"}
        with Standalone(tmp_path / "node", node, module=PLAIN, **connectors) as running:
            for form in FORMS:
                running.wait_for(lambda of=form: len(lines(of)) == len(first), f"lines of {form}")
            running.process.kill()
        append(read, "third")
        again = {name: connectors[name] for name in ("source-true", "sink-true")}
        with Standalone(tmp_path / "node", node, module=PLAIN, **again) as running:
            running.wait_for(lambda: len(lines("true")) >= len(later), "the line after the kill")
        assert (lines("false"), lines("true")) == (first, later)
        values = {
            form: [json.loads(one.value()) for one in kafka.read(f"lines-{form}")] for form in FORMS
        }
    assert values["false"] == first
    text = {"type": "string", "optional": True}
    assert values["true"] == [{"schema": text, "payload": line} for line in later]
