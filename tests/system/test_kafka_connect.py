"""Beside a real Kafka Connect: it reads what we write, we read what it writes, and connectors move
from there to here and back without a lost or a repeated line.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from penstock.cli.__main__ import main
from penstock_kit.testing import PenstockProcess, wait_until
from support.kafka import KafkaServer
from support.kafka_connect import KafkaConnect
from support.mysql import MysqlServer
from support.postgresql import PostgresqlServer
from support.processes import PLAIN, TESTS
from support.registry import SchemaRegistryServer

pytestmark = pytest.mark.timeout(600)

SOON: Final = 90.0
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
TRANSFORMS: Final = "org.apache.kafka.connect.transforms"
CONVERTERS: Final = {
    "schemas": {"value.converter": JSON, "value.converter.schemas.enable": "true"},
    "json": {"value.converter": JSON, "value.converter.schemas.enable": "false"},
    "string": {"value.converter": STRING},
}


@dataclass(frozen=True)
class Both:
    """A broker with both products beside it."""

    kafka: KafkaServer
    connect: KafkaConnect
    gateway: httpx.Client

    def create_here(self, name: str, **config: object) -> None:
        """Create a connector of ours that runs."""
        texts = {key: str(value) for key, value in config.items()}
        made = self.gateway.post("/connectors", json={"name": name, "config": texts})
        assert made.status_code == 201, made.text

    def stop_here(self, name: str) -> None:
        """Stop a connector of ours, and wait until it has no tasks."""
        assert self.gateway.put(f"/connectors/{name}/stop").status_code == 204
        wait_until(lambda: self._is_stopped(name), SOON, f"{name} to stop")

    def _is_stopped(self, name: str) -> bool:
        status = self.gateway.get(f"/connectors/{name}/status").json()
        return bool(status["connector"]["state"] == "STOPPED" and not status["tasks"])

    def failures(self, prefix: str) -> list[str]:
        """Return why tasks failed, on either side, of connectors whose names begin so."""
        found = []
        for client in (self.gateway, self.connect.client):
            every = client.get("/connectors", params={"expand": "status"}).json()
            for name, one in every.items():
                if name.startswith(prefix):
                    found += [task["trace"] for task in one["status"]["tasks"] if "trace" in task]
        return found

    def run(self, verb: str, *options: str, code: int = 0) -> Any:
        """Run `penstock import|export kafka-connect URL -o json`; return its connectors."""
        where = (self.connect.url, "--server", str(self.gateway.base_url), "-o", "json")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            assert main([verb, "kafka-connect", *where, *options]) == code
        return json.loads(printed.getvalue())["connectors"]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("both")
    with (
        KafkaServer(folder / "kafka") as kafka,
        KafkaConnect(folder / "connect", kafka.bootstrap) as connect,
    ):
        worker = {
            "bootstrap.servers": kafka.bootstrap,
            "topics.backend": "kafka",
            "key.converter": JSON,
            "value.converter": JSON,
            "listeners": "http://127.0.0.1:0",
            "state.dir": str(folder / "state"),
        }
        file = folder / "worker.json"
        file.write_text(json.dumps(worker), encoding="utf-8")
        idle = folder / "idle.json"
        idle.write_text(
            json.dumps({"name": "idle", "connector.class": "log-sink", "topics": "idle"})
        )
        kafka.create_topic("idle")
        node = PenstockProcess(
            folder / "node", "standalone", file, idle, env={"PYTHONPATH": TESTS}, module=PLAIN
        )
        with node:
            node.wait_for(lambda: "REST at " in node.output, SOON, "the node to listen")
            (url,) = re.findall(r"REST at (http://\S+)", node.output)
            with httpx.Client(base_url=url, timeout=60) as gateway:
                yield Both(kafka, connect, gateway)


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def append(file: Path, first: int, last: int) -> list[str]:
    """Append numbered lines."""
    added = [f"line {number}" for number in range(first, last)]
    with file.open("a", encoding="utf-8") as opened:
        opened.writelines(f"{line}\n" for line in added)
    return added


def values(both: Both, topic: str) -> list[str]:
    """Return the lines of a topic that is JSON with schemas."""
    return [json.loads(one.value())["payload"] for one in both.kafka.read(topic)]


@pytest.mark.parametrize("form", CONVERTERS)
def test_lines_go_both_ways_in_every_form(both: Both, tmp_path: Path, form: str) -> None:
    """Kafka Connect → ours → Kafka Connect: each reads exactly what the other wrote."""
    texts = ["plain", "", " spaces ", "grüße 🚀", '{"json": 1}', "null", '"quoted"', "a\\b"]
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    first.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    both.kafka.create_topic(f"{form}-there")
    both.kafka.create_topic(f"{form}-here")
    source = {"connector.class": "FileStreamSource", **CONVERTERS[form]}
    sink = {"connector.class": "FileStreamSink", **CONVERTERS[form]}
    both.connect.create(f"{form}-1", **source, file=first, topic=f"{form}-there")
    both.create_here(f"{form}-2", **sink, file=second, topics=f"{form}-there")
    wait_until(lambda: len(lines(second)) >= len(texts), SOON, "what Kafka Connect wrote")
    assert lines(second) == texts
    both.create_here(f"{form}-3", **source, file=first, topic=f"{form}-here")
    both.connect.create(f"{form}-4", **sink, file=third, topics=f"{form}-here")
    wait_until(
        lambda: both.connect.failure(f"{form}-4") or len(lines(third)) >= len(texts),
        SOON,
        "what we wrote",
    )
    assert both.connect.failure(f"{form}-4") == ""
    assert lines(third) == texts
    there, here = (both.kafka.read(f"{form}-{side}") for side in ("there", "here"))
    assert [said(one, form) for one in here] == [said(one, form) for one in there]


NUMBERS: Final = {
    "Short": ("int16", ["0", "-32768", "32767"]),
    "Integer": ("int32", ["7", "-2147483648", "2147483647"]),
    "Long": ("int64", ["7", "-9223372036854775808", "9223372036854775807"]),
    "Float": ("float32", ["0.5", "-1.25", "1024.0"]),
    "Double": ("float64", ["0.1", "-1.5E300", "4.9E-324"]),
    "Boolean": ("boolean", ["true", "false"]),
}
"""What a converter of numbers is called, the type that `Cast` makes for it, and lines."""


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_go_both_ways(both: Both, tmp_path: Path, name: str) -> None:
    kind, texts = NUMBERS[name]
    converter = {"value.converter": f"org.apache.kafka.connect.converters.{name}Converter"}
    cast = {"transforms": "cast", "transforms.cast.type": f"{TRANSFORMS}.Cast$Value"}
    written = converter | cast | {"transforms.cast.spec": kind}
    found = exchange(both, tmp_path, name.lower(), texts, written, converter, {})
    (numbers,) = {tuple(json.loads(text.lower()) for text in one) for one in found.values()}
    assert list(numbers) == [json.loads(text) for text in texts]
    there, here = (both.kafka.read(f"{name.lower()}-{side}") for side in ("there", "here"))
    assert [one.value() for one in there] == [one.value() for one in here]


AVRO: Final = "io.apicurio.registry.utils.converter.AvroConverter"


def test_avro_goes_both_ways(both: Both, tmp_path: Path) -> None:
    """With a schema registry, and of every type that Kafka Connect's transforms make."""
    made = {
        "transforms.line.type": f"{TRANSFORMS}.HoistField$Value",
        "transforms.line.field": "line",
        "transforms.types.type": f"{TRANSFORMS}.Cast$Value",
        "transforms.types.spec": "n:int32,x:float64,ok:boolean",
    }
    fields = {"n": "7", "x": "0.5", "ok": "true", "at": "2026-11-27 12:00:00.123"}
    for field, text in fields.items():
        made[f"transforms.{field}.type"] = f"{TRANSFORMS}.InsertField$Value"
        made[f"transforms.{field}.static.field"] = field
        made[f"transforms.{field}.static.value"] = text
    made["transforms.time.type"] = f"{TRANSFORMS}.TimestampConverter$Value"
    made["transforms.time.field"] = "at"
    made["transforms.time.format"] = "yyyy-MM-dd HH:mm:ss.SSS"
    made["transforms.time.target.type"] = "Timestamp"
    made["transforms"] = "line,n,x,ok,at,types,time"
    with SchemaRegistryServer(tmp_path / "registry") as registry:
        avro = {
            "value.converter": AVRO,
            "value.converter.apicurio.registry.url": f"{registry.root}/apis/registry/v2",
            "value.converter.apicurio.registry.auto-register": "true",
            "value.converter.apicurio.registry.as-confluent": "true",
            "value.converter.apicurio.registry.use-id": "contentId",
            "value.converter.apicurio.registry.headers.enabled": "false",
        }
        found = exchange(
            both, tmp_path, "avro", ["a", "é", ""], made | avro, avro, {"format": "jsonl"}
        )
        there = [
            f"Struct{{line={text},n=7,x=0.5,ok=true,at=Fri Nov 27 12:00:00 UTC 2026}}"
            for text in ("a", "é", "")
        ]
        assert found["there", "there"] == found["here", "there"] == there
        rows = [json.loads(one) for one in found["there", "here"]]
        assert rows == [json.loads(one) for one in found["here", "here"]]
        at = "2026-11-27T12:00:00.123000Z"
        assert rows == [
            {"line": text, "n": 7, "x": 0.5, "ok": True, "at": at} for text in ("a", "é", "")
        ]


def exchange(
    both: Both,
    folder: Path,
    name: str,
    texts: list[str],
    written: dict[str, str],
    read: dict[str, str],
    here: dict[str, str],
) -> dict[tuple[str, str], list[str]]:
    """Write lines to a topic there and to one here, and read both on both sides: to files there,
    and here with more keys. Returns the lines of files by who wrote and who read.
    """
    file = folder / "in"
    file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    sides = {"there": (both.connect.create, {}), "here": (both.create_here, here)}
    for side, (create, _) in sides.items():
        both.kafka.create_topic(f"{name}-{side}")
        source = {"connector.class": "FileStreamSource", "file": file, "topic": f"{name}-{side}"}
        create(f"{name}-write-{side}", **source, **written)
    found = dict[tuple[str, str], list[str]]()
    for wrote in sides:
        for side, (create, more) in sides.items():
            out = folder / f"{wrote}-read-{side}"
            sink = {"connector.class": "FileStreamSink", "file": out, "topics": f"{name}-{wrote}"}
            create(f"{name}-{wrote}-read-{side}", **sink, **read, **more)
            done = lambda out=out: len(lines(out)) == len(texts)  # noqa: E731
            wait_until(lambda done=done: done() or both.failures(name), SOON, out.name)
            assert not both.failures(name), out.name
            found[wrote, side] = lines(out)
    return found


def test_kafka_connect_counts_characters_of_a_file(both: Both, tmp_path: Path) -> None:
    """So its position is refused here where it is inside a line: no half a line is a row."""
    file = tmp_path / "in"
    file.write_text("grüße\n🚀\nlast\n", encoding="utf-8")
    both.kafka.create_topic("counted")
    source = {"connector.class": "FileStreamSource", "file": file, "topic": "counted"}
    both.connect.create("counted", **source)
    wait_until(lambda: both.connect.offsets("counted"), SOON, "an offset")
    both.connect.stop("counted")
    (stored,) = both.connect.offsets("counted")
    assert stored["offset"] == {"position": 6 + 3 + 5}  # of 8 + 5 + 5 bytes
    both.run("import", "--connector", "counted", "--apply", "--start")
    status = "/connectors/counted/status"
    wait_until(lambda: "file.bad_offset" in both.gateway.get(status).text, SOON, "the error")


def test_a_sink_begins_again_at_the_messages_of_a_time(both: Both, tmp_path: Path) -> None:
    now, file = datetime.now(UTC), tmp_path / "out"
    both.kafka.create_topic("timed")
    for minutes, text in ((30, b"a"), (20, b"b"), (10, b"c")):
        at = round((now - timedelta(minutes=minutes)).timestamp() * 1000)
        both.kafka.produce("timed", [(None, text)], timestamp=at)
    sink = {"connector.class": "FileStreamSink", **CONVERTERS["string"]}
    both.create_here("timed", **sink, file=file, topics="timed")
    wait_until(lambda: lines(file) == ["a", "b", "c"], SOON, "all messages")
    both.stop_here("timed")
    since = (now - timedelta(minutes=25)).isoformat()
    words = ("offsets", "seek", "timed", "--to", since, "--server", str(both.gateway.base_url))
    wait_until(lambda: main(list(words)) == 0, SOON, "the task to have let go")
    stored = both.gateway.get("/connectors/timed/offsets").json()["offsets"]
    assert [one["offset"] for one in stored] == [{"kafka_offset": 1}]
    assert both.gateway.put("/connectors/timed/resume").status_code == 202
    wait_until(lambda: lines(file) == ["a", "b", "c", "b", "c"], SOON, "the messages since then")


def said(message: Any, form: str) -> Any:
    """Return what a value says. Kafka Connect escapes characters beyond the first 65,536; our
    engine knows no columns that are never null, so that all schemas of ours are optional.
    """
    if form == "string":
        return message.value()
    value = json.loads(message.value())
    if form == "schemas":
        assert value["schema"].pop("optional") in {True, False}
    return value


def test_keys_headers_times_and_tombstones_survive_both(both: Both, tmp_path: Path) -> None:
    """Kafka Connect makes messages, ours copies them, Kafka Connect reads the copies.

    Without schemas, whose `optional` differs: with them the bytes of a key are others than those of
    Kafka Connect, and so may be its partition.
    """
    plain = {f"{side}.converter.schemas.enable": "false" for side in ("key", "value")}
    plain |= {"key.converter": JSON, "value.converter": JSON}
    file, out = tmp_path / "in", tmp_path / "out"
    append(file, 0, 20)
    both.kafka.create_topic("made", 2)
    both.kafka.create_topic("copied", 2)
    made = {
        "transforms": "field,key,header",
        "transforms.field.type": f"{TRANSFORMS}.HoistField$Value",
        "transforms.field.field": "text",
        "transforms.key.type": f"{TRANSFORMS}.ValueToKey",
        "transforms.key.fields": "text",
        "transforms.header.type": f"{TRANSFORMS}.InsertHeader",
        "transforms.header.header": "number",
        "transforms.header.value.literal": "7",
    }
    source = {"connector.class": "FileStreamSource", "file": file, "topic": "made"}
    both.connect.create("maker", **source, **made, **plain)
    wait_until(lambda: len(both.kafka.read("made")) == 20, SOON, "20 messages")
    key = next(one.key() for one in both.kafka.read("made") if one.partition() == 0)
    both.kafka.produce("made", [(key, None)], partition=0, headers=[("number", b"7")])
    both.create_here(
        "copy",
        **{
            "source.connector.class": "kafka-source",
            "source.bootstrap.servers": both.kafka.bootstrap,
            "source.topics": "made",
            **{f"source.{key}": value for key, value in plain.items()},
            **{f"sink.{key}": value for key, value in plain.items()},
            "sink.connector.class": "kafka-sink",
            "sink.bootstrap.servers": both.kafka.bootstrap,
            "sink.topic": "copied",
        },
    )
    wait_until(lambda: len(both.kafka.read("copied")) == 21, SOON, "all copies")
    assert [parts(one) for one in both.kafka.read("copied")] == [
        parts(one) for one in both.kafka.read("made")
    ]
    seen = {
        "transforms": "dead,other,time",
        "transforms.dead.type": f"{TRANSFORMS}.Filter",
        "transforms.dead.predicate": "tombstone",
        "transforms.other.type": f"{TRANSFORMS}.Filter",
        "transforms.other.predicate": "numbered",
        "transforms.other.negate": "true",
        "transforms.time.type": f"{TRANSFORMS}.InsertField$Value",
        "transforms.time.timestamp.field": "at",
        "predicates": "tombstone,numbered",
        "predicates.tombstone.type": f"{TRANSFORMS}.predicates.RecordIsTombstone",
        "predicates.numbered.type": f"{TRANSFORMS}.predicates.HasHeaderKey",
        "predicates.numbered.name": "number",
    }
    sink = {"connector.class": "FileStreamSink", "file": out, "topics": "copied"}
    both.connect.create("reader", **sink, **seen, **plain)
    wait_until(lambda: both.connect.failure("reader") or len(lines(out)) >= 20, SOON, "the copies")
    assert both.connect.failure("reader") == ""
    assert sorted(lines(out)) == sorted(
        f"{{text={json.loads(one.value())['text']}, at={one.timestamp()[1]}}}"
        for one in both.kafka.read("made")
        if one.value() is not None
    )


def parts(message: Any) -> tuple[object, ...]:
    """Return what a message says, and where."""
    said = (message.key(), message.value(), message.headers(), message.timestamp()[1])
    return (message.partition(), *said)


def test_a_file_source_moves_here_and_back(both: Both, tmp_path: Path) -> None:
    """Stopped in the middle of its file, it goes on at that line: none is lost, none twice."""
    file = tmp_path / "in"
    expected = append(file, 0, 100)
    both.kafka.create_topic("moving")
    source = {"connector.class": "FileStreamSource", "file": file, "topic": "moving"}
    both.connect.create("mover", **source)
    wait_until(lambda: len(values(both, "moving")) == 100, SOON, "the first lines")
    move = ("import", "--connector", "mover")
    (refused,) = both.run(*move, "--apply", code=2)
    assert (refused["result"], "/connectors/mover/stop" in refused["first"]) == ("refused", True)
    both.connect.stop("mover")
    expected += append(file, 100, 200)
    (planned,) = both.run(*move)
    assert planned["steps"] == ["create", "offsets"]
    assert both.gateway.get("/connectors/mover").status_code == 404
    (done,) = both.run(*move, "--apply", "--start")
    assert (done["result"], done["becomes"]) == ("done", "file-source")
    wait_until(lambda: len(values(both, "moving")) >= 200, SOON, "lines that we read")
    (again,) = both.run(*move, "--apply", "--start")
    assert again["result"] == "nothing to do"
    both.stop_here("mover")
    expected += append(file, 200, 300)
    (back,) = both.run("export", "--connector", "mover", "--apply", "--start")
    assert (back["result"], back["steps"]) == ("done", ["offsets", "start"])
    wait_until(lambda: len(values(both, "moving")) >= 300, SOON, "lines that it reads again")
    both.connect.stop("mover")
    (other,) = both.run(*move, "--apply", "--start", code=2)
    assert [one["code"] for one in other["refused"]] == ["migration.other_offsets"]
    assert both.gateway.delete("/connectors/mover/offsets").is_success
    expected += append(file, 300, 400)
    (third,) = both.run(*move, "--apply", "--start")
    assert third["steps"] == ["offsets", "start"]
    wait_until(lambda: len(values(both, "moving")) >= 400, SOON, "lines that we read again")
    assert values(both, "moving") == expected


def test_a_file_sink_moves_here_and_back(both: Both, tmp_path: Path) -> None:
    out = tmp_path / "out"
    both.kafka.create_topic("sinking", 2)
    sink = {
        "connector.class": "FileStreamSink",
        "file": out,
        "topics": "sinking",
        **CONVERTERS["string"],
    }

    def produce(first: int, last: int) -> None:
        for number in range(first, last):
            message = [(None, f"line {number}".encode())]
            both.kafka.produce("sinking", message, partition=number % 2)

    produce(0, 20)
    both.connect.create("sinker", **sink)
    wait_until(lambda: len(lines(out)) == 20, SOON, "the first lines")
    both.connect.stop("sinker")
    produce(20, 40)
    move = ("--connector", "sinker", "--apply", "--start")
    (done,) = both.run("import", *move)
    assert done["result"] == "done"
    assert sorted(one["after"]["offset"]["kafka_offset"] for one in done["offsets"]) == [10, 10]
    wait_until(lambda: len(lines(out)) >= 40, SOON, "lines that we wrote")
    both.stop_here("sinker")
    produce(40, 60)
    (back,) = both.run("export", *move)
    assert back["result"] == "done"
    wait_until(lambda: len(lines(out)) >= 60, SOON, "lines that it wrote again")
    assert sorted(lines(out)) == sorted(f"line {number}" for number in range(60))
    assert {one["offset"]["kafka_offset"] for one in both.connect.offsets("sinker")} <= {20, 30}


def test_a_plan_names_what_has_no_effect_and_what_cannot_move(both: Both, tmp_path: Path) -> None:
    file = tmp_path / "in"
    append(file, 0, 3)
    both.kafka.create_topic("named")
    source = {"connector.class": "FileStreamSource", "topic": "named"}
    both.connect.create("named", **source, **{"file": file, "errors.log.enable": "true"})
    both.connect.create("relative", **source, file=os.path.relpath(file))
    wait_until(lambda: len(both.connect.offsets("relative")) == 1, SOON, "an offset")
    moves = both.run("import", "--connector", "named", "--connector", "relative", code=2)
    found = {one["connector"]: one for one in moves}
    assert found["named"]["added"] == {"topics.backend": "kafka"}
    assert "errors.log.enable" in {one["config_path"] for one in found["named"]["findings"]}
    assert not found["named"]["refused"]
    assert [one["code"] for one in found["relative"]["refused"]] == ["migration.offsets_lost"]


def test_without_offsets_rows_come_twice(both: Both, tmp_path: Path) -> None:
    """The twin: what the other tests count would show a hand-over that forgets offsets."""
    file = tmp_path / "in"
    expected = append(file, 0, 5)
    both.kafka.create_topic("twice")
    source = {"connector.class": "FileStreamSource", "file": file, "topic": "twice"}
    both.connect.create("twice", **source)
    wait_until(lambda: values(both, "twice") == expected, SOON, "the first time")
    both.connect.stop("twice")
    both.run("import", "--connector", "twice", "--without-offsets", "--apply", "--start")
    wait_until(lambda: values(both, "twice") == expected * 2, SOON, "the second time")


def keys_of(both: Both, topic: str) -> list[int]:
    """Return the ids of a topic's messages. Debezium's keys and ours are the same bytes."""
    return [json.loads(one.key())["id"] for one in both.kafka.read(topic)]


PLAIN_KEYS: Final = {"key.converter": JSON, "key.converter.schemas.enable": "false"}


def test_debezium_for_postgresql_moves_here_and_back(both: Both) -> None:
    """No change is lost, and only those of the last transaction come again, on the way here."""
    topic = "shop.public.people"
    both.kafka.create_topic(topic)
    with PostgresqlServer("wal_level=logical") as server:
        server.sql("CREATE TABLE people (id int PRIMARY KEY)")
        server.sql("INSERT INTO people VALUES (0)")
        config = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "127.0.0.1",
            "database.port": server.port,
            "database.user": "penstock",
            "database.dbname": "postgres",
            "plugin.name": "pgoutput",
            "topic.prefix": "shop",
            "table.include.list": "public.people",
        }
        both.connect.create("postgres", **config, **PLAIN_KEYS)
        wait_until(lambda: both.connect.offsets("postgres"), SOON, "a snapshot")
        server.sql("INSERT INTO people VALUES (1)")
        server.sql("INSERT INTO people VALUES (2), (3)")
        wait_until(lambda: keys_of(both, topic) == [0, 1, 2, 3], SOON, "the first changes")
        both.connect.stop("postgres")
        server.sql("INSERT INTO people VALUES (4)")
        server.sql("DELETE FROM people WHERE id = 1")
        move = ("import", "--connector", "postgres", "--apply", "--start")
        (refused,) = both.run(*move, code=2)
        assert [one["code"] for one in refused["refused"]] == ["migration.rows_again"]
        (done,) = both.run(*move, "--allow-repeats")
        assert done["added"]["slot.name"] == "debezium"
        wait_until(lambda: len(keys_of(both, topic)) >= 9, SOON, "changes that we read")
        assert keys_of(both, topic) == [0, 1, 2, 3, *(2, 3), 4, 1, 1]
        assert done["added"]["output.format"] == "debezium"
        *_, change, deletion, tombstone = (one.value() for one in both.kafka.read(topic))
        changes = [json.loads(one)["payload"]["op"] for one in (change, deletion)]
        assert changes == ["c", "d"]
        assert tombstone is None
        both.stop_here("postgres")
        server.sql("INSERT INTO people VALUES (5)")
        both.run("export", "--connector", "postgres", "--apply", "--start")
        server.sql("INSERT INTO people VALUES (6)")
        wait_until(lambda: 6 in keys_of(both, topic), SOON, "changes that Debezium reads")
        assert keys_of(both, topic)[9:] == [5, 6]
        both.connect.stop("postgres")  # before the server ends


def test_debezium_for_mysql_moves_here_and_back(both: Both) -> None:
    topic = "shop.shop.people"
    both.kafka.create_topic(topic)
    both.kafka.create_topic("history")
    with MysqlServer() as server:
        server.sql("CREATE DATABASE shop; CREATE TABLE shop.people (id int PRIMARY KEY)")
        server.sql("INSERT INTO shop.people VALUES (0)")
        config = {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "database.hostname": "127.0.0.1",
            "database.port": server.port,
            "database.user": "penstock",
            "database.password": "penstock",
            "database.server.id": "77",
            "topic.prefix": "shop",
            "table.include.list": "shop.people",
            "include.schema.changes": "false",
            "schema.history.internal.kafka.bootstrap.servers": both.kafka.bootstrap,
            "schema.history.internal.kafka.topic": "history",
        }
        both.connect.create("mysql", **config, **PLAIN_KEYS)
        wait_until(lambda: keys_of(both, topic) == [0], SOON, "a snapshot")
        server.sql("INSERT INTO shop.people VALUES (1)")
        server.sql("INSERT INTO shop.people VALUES (2), (3)")
        wait_until(lambda: keys_of(both, topic) == [0, 1, 2, 3], SOON, "the first changes")
        both.connect.stop("mysql")
        server.sql("INSERT INTO shop.people VALUES (4)")
        server.sql("DELETE FROM shop.people WHERE id = 1")
        move = ("import", "--connector", "mysql", "--apply", "--start")
        (refused,) = both.run(*move, code=2)
        assert [one["code"] for one in refused["refused"]] == ["migration.rows_again"]
        (done,) = both.run(*move, "--allow-repeats")
        assert any("schema.history" in one["config_path"] for one in done["findings"])
        wait_until(lambda: len(keys_of(both, topic)) >= 9, SOON, "changes that we read")
        assert keys_of(both, topic) == [0, 1, 2, 3, *(2, 3), 4, 1, 1]
        both.stop_here("mysql")
        server.sql("INSERT INTO shop.people VALUES (5)")
        (plan,) = both.run("export", "--connector", "mysql", "--apply", "--start")
        assert "snapshot.mode=recovery" in plan["offsets"][0]["note"]
        server.sql("INSERT INTO shop.people VALUES (6)")
        wait_until(lambda: 6 in keys_of(both, topic), SOON, "changes that Debezium reads")
        assert keys_of(both, topic)[9:] == [5, 6]
        both.connect.stop("mysql")
