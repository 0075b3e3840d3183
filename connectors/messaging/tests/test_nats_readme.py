"""The pipelines of NATS's README run as they stand there, and lose nothing when they are killed."""

import json
import re
from pathlib import Path

import pytest
import yaml

import penstock_messaging.nats
from penstock_connector import messages as kit
from penstock_connector import raw_message_reader
from penstock_connector._connectors import spec_of
from penstock_kit.testing import wait_until
from penstock_messaging import NatsSink, NatsSource
from penstock_messaging.nats.source import SEQUENCE
from support.processes import PLAIN
from system.pipelines import Pipeline

pytestmark = pytest.mark.timeout(300)

FOLDER = Path(penstock_messaging.nats.__file__).parent
README = (FOLDER / "README.md").read_text(encoding="utf-8")
SOURCE, SINK = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", README, re.DOTALL))


def numbers(out):
    """The numbers in the files that are written so far."""
    texts = [file.read_text() for file in out.rglob("*.jsonl")]
    return [json.loads(line)["id"] for text in texts for line in text.splitlines()]


def test_every_code_of_an_error_is_in_the_readme():
    text = "".join(file.read_text(encoding="utf-8") for file in FOLDER.rglob("*.py"))
    kits = (kit, raw_message_reader)
    shared = "".join(Path(one.__file__).read_text(encoding="utf-8") for one in kits)
    codes = set(re.findall(r'"(nats\.[a-z_]+)"', text))
    codes |= {
        f"nats.{name}" for name in re.findall(r'f"\{(?:self\._)?system\}\.([a-z_]+)"', shared)
    }
    told = set(re.findall(r"nats\.[a-z_]+", README.split("## Errors")[1].split("## Try")[0]))
    keys = {key.name for one in (NatsSource, NatsSink) for key in spec_of(one).config_keys}
    assert codes - keys - {SEQUENCE} == told - keys


def test_rows_of_the_source_arrive_once_also_after_kills(nats, tmp_path, stream):
    """`penstock run`, killed before and after the offsets are stored."""
    out = tmp_path / "out"
    source = SOURCE["source"] | nats.keys | {"nats.stream": stream}
    sink = SOURCE["sink"] | {"path": str(out)}
    pipeline = Pipeline(tmp_path, {"source": source, "sink": sink}, PLAIN)
    nats.add_stream(stream, f"{stream}.>")
    send = (b'{"id": %d}' % number for number in range(300))
    nats.publish(f"{stream}.7", *[next(send) for _ in range(200)])
    pipeline.kill_at("worker.sink_written=kill@1")
    pipeline.kill_at("worker.offset_committed=kill@1")
    with pipeline.running():
        nats.publish(f"{stream}.7", *send)
        wait_until(lambda: set(numbers(out)) >= set(range(300)), 120, "all rows")
    assert sorted(numbers(out)) == list(range(300))


def test_rows_arrive_at_the_sink_once_also_after_a_kill(nats, tmp_path, stream):
    lines = tmp_path / "in.jsonl"
    lines.write_text("".join(f'{{"id": "{n}", "n": {n}}}\n' for n in range(300)))
    source = {"connector.class": "file-source", "file": str(lines), "format": "jsonl",
              "tail": False}  # fmt: skip
    sink = SINK["sink"] | nats.keys | {"nats.stream": stream}
    sink["nats.subject"] = sink["nats.subject"].replace("shipped.${key}", f"{stream}.new")
    nats.add_stream(stream, f"{stream}.>")
    pipeline = Pipeline(tmp_path, {"source": source, "sink": sink}, PLAIN)
    pipeline.kill_at("worker.sink_written=kill@1")
    done = pipeline.run()
    assert done.code == 0, done.output
    assert [json.loads(one.payload)["n"] for one in nats.messages(stream)] == list(range(300))
