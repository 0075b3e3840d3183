"""A secret that a plugin gets by reference is nowhere but there: not in what people are shown, what
collectors are sent, what is stored, written or seen from outside of a process (X4). The plugin
tells it in the words of an error, as careless ones do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import httpx
import pytest

from penstock.etcd import Etcd
from penstock.model.config_redaction import REDACTED
from penstock_kit.testing import PenstockProcess, wait_until
from support.cluster import READY, Cluster
from support.flow import SPARK
from support.standalone import Standalone
from support.traces import Receiver
from system.test_gateway import ANY, rest

pytestmark = pytest.mark.timeout(300)

CANARIES = ("canary-6e02b1d9", "canary-a41c77f0")
"""The secret's two parts: one in a file, one in a variable of the worker."""
VARIABLE = "CANARY_STAMP"
NAME = "careless"
SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module", params=["cluster", "standalone"])
def places(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, bytes]:
    """All that can be seen of where it was used, by the name of the place."""
    folder = tmp_path_factory.mktemp("canaries")
    file = folder / "secrets" / "app.properties"
    file.parent.mkdir()
    file.write_text(f"stamp={CANARIES[0]}\n")
    runs = cluster if request.param == "cluster" else standalone
    with Receiver() as receiver, pytest.MonkeyPatch.context() as patch:
        for name, value in receiver.environment.items():
            patch.setenv(name, value)
        with runs(folder, settings(file.parent)) as (worker, gateway, kept):
            with rest(gateway) as client:
                use(client, folder, f"${{file:{file}:stamp}}${{env:{VARIABLE}}}")
                wait_until(lambda: receiver.named("worker.micro_batch"), READY, "its spans")
                wait_until(lambda: receiver.numbers("penstock.task.rows.written"), READY, "numbers")
                found = shown(client) | sent(receiver) | seen(worker.pid) | kept()
            found |= written(folder)
    return found | {f"{name} at its end": text for name, text in written(folder).items()}


Runs: TypeAlias = tuple[PenstockProcess, PenstockProcess, Callable[[], dict[str, bytes]]]
"""The process that has the worker, the one that has the gateway, what is stored elsewhere."""


def settings(secrets: Path) -> dict[str, str]:
    """Settings of the worker."""
    return {
        "plugin.path": str(SUPPORT / "picky"),
        "plugin.only.sealed": "false",
        "config.providers": "file,env",
        "config.providers.file.param.allowed.paths": str(secrets),
        "config.providers.env.param.allowlist.pattern": VARIABLE,
    }


@contextmanager
def cluster(folder: Path, worker: Mapping[str, str]) -> Iterator[Runs]:
    """Each service is a process of its own."""
    with Cluster(folder / "cluster") as cluster:
        keys = {**SPARK, **worker}
        started = cluster.start("worker", "w1", env={VARIABLE: CANARIES[1]}, **keys)
        cluster.until(lambda: "w1" in cluster.connected(), READY, "the worker to take part")
        yield started, cluster.start("gateway", "g1", listeners=ANY), lambda: stored(cluster)


@contextmanager
def standalone(folder: Path, worker: Mapping[str, str]) -> Iterator[Runs]:
    """All of them are one process."""
    keys = {**worker, "listeners": ANY}
    idle = {"connector.class": "verifiable-source", "topic": "idle", "state": "STOPPED"}
    with Standalone(folder / "node", keys, {VARIABLE: CANARIES[1]}, idle=idle) as node:
        yield node.process, node.process, dict


def use(client: httpx.Client, folder: Path, reference: str) -> None:
    """Run a pipeline until a row was refused with the secret in the words, and one was written."""
    rows = [{"kind": kind} for kind in ("tell", "good")]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {
        "source.connector.class": "file-source",
        "source.file": str(folder / "in.jsonl"),
        "source.format": "jsonl",
        "sink.connector.class": "picky-sink",
        "sink.file": str(folder / "out"),
        "sink.stamp": reference,
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.log.include.messages": "true",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    made = client.put(f"/connectors/{NAME}/config", json=config)
    assert made.status_code == 201, made.text
    letters = f"/v1/connectors/{NAME}/letters"
    wait_until(lambda: "picky.told" in client.get(letters).text, READY, "the letter of the row")
    out = folder / "out"  # committed after the dead letter
    wait_until(lambda: out.exists() and out.read_text(), READY, "the row that was written")
    assert out.read_text() == '{"kind": "good"}\n'


def shown(client: httpx.Client) -> dict[str, bytes]:
    """What people are answered."""
    own, more = f"/connectors/{NAME}", ("", "/config", "/status", "/tasks", "/offsets", "/topics")
    paths = [f"{own}{part}" for part in more] + [
        f"/v1{own}",
        f"/v1{own}/revisions",
        f"/v1{own}/logs",
    ]
    paths += [f"/v1{own}/letters", "/connectors?expand=info&expand=status", "/metrics", "/v1/logs"]
    answers = {path: client.get(path) for path in paths}
    assert {path for path, one in answers.items() if not one.is_success} == set()
    return {path: one.content for path, one in answers.items()}


def sent(receiver: Receiver) -> dict[str, bytes]:
    """What a collector gets."""
    return {
        "spans": "".join(map(str, receiver.spans())).encode(),
        "lines": "".join(map(str, receiver.lines())).encode(),
        "numbers": "".join(map(str, receiver.all_numbers())).encode(),
    }


def seen(worker: int) -> dict[str, bytes]:
    """Command lines and variables of all processes; of the worker only the first."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        for file in ("cmdline", "environ"):
            try:
                text = (process / file).read_bytes()
            except OSError:
                continue  # it has ended
            found[f"{process}/{file}"] = text
    assert CANARIES[1].encode() in found.pop(f"/proc/{worker}/environ")
    return found


def stored(cluster: Cluster) -> dict[str, bytes]:
    """All of etcd."""

    async def ask() -> bytes:
        client = await Etcd.connect(cluster.etcd.settings())
        try:
            found = await client.range("/penstock/")
            return b"\n".join(entry.key.encode() + b" " + entry.value for entry in found.entries)
        finally:
            await client.close()

    return {"etcd": cluster.run(ask())}


def written(folder: Path) -> dict[str, bytes]:
    """Every file: logs, topics, scratch."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "secrets"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_it_is_nowhere(places: Mapping[str, bytes]) -> None:
    secrets = [canary.encode() for canary in CANARIES]
    assert [name for name, text in places.items() if any(map(text.__contains__, secrets))] == []


def test_what_is_looked_through_is_what_there_is(places: Mapping[str, bytes]) -> None:
    """The twin: the words that held it are there, with a mask in its place."""
    told = f"{REDACTED} is not for this row".encode()
    holding = [name for name, text in places.items() if told in text]
    assert f"/v1/connectors/{NAME}/letters" in holding
    assert f"/v1/connectors/{NAME}/logs" in holding
    for part in (".log", "topics/"):
        assert any(part in name for name in holding), holding
    kept = places.get("etcd") or b"".join(t for name, t in places.items() if "/state/" in name)
    assert b"picky-sink" in kept
    assert any(b"picky.py" in text for name, text in places.items() if name.endswith("cmdline"))
