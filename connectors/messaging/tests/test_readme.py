"""The pipelines of the README run as they stand there, and lose nothing when they are killed."""

import json
import re
from pathlib import Path

import pytest
import yaml

from penstock_kit.testing import wait_until
from support.mosquitto import PASSWORD, USER
from support.processes import PLAIN
from system.pipelines import Pipeline

pytestmark = pytest.mark.timeout(300)

README = Path(__file__).parent.parent / "README.md"
SOURCE, SINK = map(
    yaml.safe_load, re.findall(r"```yaml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
)


def numbers(out):
    """The numbers in the files that are written so far."""
    texts = [file.read_text() for file in out.rglob("*.jsonl")]
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    return [row["celsius"] for row in rows if "celsius" in row]


def test_rows_of_the_source_arrive_also_after_kills(mosquitto, tmp_path, topic):
    """`penstock run`, killed before and after the offsets are stored."""
    out = tmp_path / "out"
    source = SOURCE["source"] | mosquitto.keys | {"mqtt.client.id": topic}
    sink = SOURCE["sink"] | {"path": str(out)}
    pipeline = Pipeline(tmp_path, {"source": source, "sink": sink}, PLAIN)
    mosquitto.subscribe(topic, source["mqtt.topics"])
    send = (b'{"celsius": %d}' % number for number in range(300))
    mosquitto.publish("plant/7/temperature", *[next(send) for _ in range(200)])
    pipeline.kill_at("worker.sink_written=kill@1")
    pipeline.kill_at("worker.offset_committed=kill@1")
    with pipeline.running():
        mosquitto.publish("plant/7/temperature", *send)
        wait_until(lambda: set(numbers(out)) == set(range(300)), 120, "all rows")


def test_rows_arrive_at_the_sink_also_after_a_kill(mosquitto, tmp_path, topic):
    lines = tmp_path / "in.jsonl"
    lines.write_text("".join(f'{{"id": "{n}", "celsius": {n}}}\n' for n in range(300)))
    source = {"connector.class": "file-source", "file": str(lines), "format": "jsonl",
              "tail": False}  # fmt: skip
    sink = SINK["sink"] | mosquitto.keys
    sink |= {"mqtt.topic": topic, "mqtt.retained.enabled": False}
    assert (mosquitto.keys["mqtt.username"], PASSWORD) == (USER, sink["mqtt.password"])
    pipeline = Pipeline(tmp_path, {"source": source, "sink": sink}, PLAIN)
    with mosquitto.client() as client:
        client.subscribe(topic)
        pipeline.kill_at("worker.sink_written=kill@1")
        done = pipeline.run()
        assert done.code == 0, done.output
        came = {}
        for message in client.messages:
            name = dict(message.properties.UserProperty)["penstock_id"]
            came[name] = json.loads(message.payload)["celsius"]
    assert sorted(came.values()) == list(range(300))
