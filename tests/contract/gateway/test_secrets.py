"""A secret by reference: it reaches the plugin, and nothing that anybody can read (X4, X12)."""

import json
import logging

import pytest

from penstock.connector_config.dead_letters import replay_connector
from penstock.connector_config.validation import validate_connector
from penstock.gateway.v1.replay import run_replay
from penstock.model.connector import Connector, ConnectorKind, TargetState
from penstock.model.dead_letter_queue import DeadLetterId, RowEdits
from penstock_kit.testing import wait_until
from support.gateway import READY

CANARY = "canary-7f3a9c"


def write(secrets, file):
    """Have the secret be the name of a file."""
    new = secrets / "new"
    new.write_text(f"file={file}\n")
    new.rename(secrets / "app.properties")


def pipeline(folder, reference):
    return {
        "source.connector.class": "file-source",
        "source.file": str(folder / "in.jsonl"),
        "source.format": "jsonl",
        "sink.connector.class": "file-sink",
        "sink.file": reference,
        "sink.format": "jsonl",
    }


def arrives(folder, name):
    """Add a row; whether the file has some."""
    with (folder / "in.jsonl").open("a") as file:
        file.write('{"a": 1}\n')
    out = folder / name
    return out.exists() and out.read_text()


def test_it_is_looked_up_by_the_worker_again_when_it_changes_and_is_nowhere_else(
    gateway, made, secrets, tmp_path, caplog
):
    caplog.set_level(logging.INFO)
    write(secrets, tmp_path / f"{CANARY}-1")
    arrives(tmp_path, "none")
    config = pipeline(tmp_path, f"${{file:{secrets}/app.properties:file}}")
    asked = {"name": "moves", "config": config}
    answers = [gateway.post("/v1/connectors/validate", asked).text]
    path = made("moves", "RUNNING", **config)
    for name in (f"{CANARY}-1", f"{CANARY}-2"):
        write(secrets, tmp_path / name)
        wait_until(lambda name=name: arrives(tmp_path, name), READY, "rows at the secret place")
    paths = ("", "/config", "/status", "/tasks", "/tasks-config", "/offsets", "/topics")
    answers += [gateway.get(f"{path}{part}").text for part in paths]
    answers += [
        gateway.get("/connectors?expand=info&expand=status").text,
        gateway.get("/v1/connectors/moves/revisions").text,
        gateway.post("/v1/connectors/check", asked).text,
    ]
    assert config["sink.file"] in json.loads(answers[1])["config"].values()
    assert [answer for answer in answers if CANARY in answer] == []
    assert CANARY not in "\n".join(record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        ("${file:/etc/passwd:root}", "secrets.refused"),
        ("${file:{secrets}/../in.jsonl:a}", "secrets.refused"),
        ("${file:{secrets}/app.properties:none}", "secrets.not_found"),
        ("${file:{secrets}/none:a}", "secrets.not_found"),
        ("${env:HOME}", "secrets.refused"),
        ("${env:DB_NONE}", "secrets.not_found"),
    ],
)
def test_what_may_not_be_read_is_refused_when_it_is_written(
    gateway, secrets, tmp_path, reference, code
):
    write(secrets, tmp_path / CANARY)
    config = pipeline(tmp_path, reference.replace("{secrets}", str(secrets)))
    answer = gateway.post("/connectors", {"name": "refused", "config": config})
    assert answer.status_code == 400
    assert code in answer.text
    assert "sink.file" in answer.text
    assert CANARY not in answer.text


SHOWN = (
    "/connectors/stamped",
    "/connectors/stamped/config",
    "/connectors/stamped/tasks",
    "/connectors?expand=info",
    "/v1/connectors/stamped",
    "/v1/connectors/stamped/revisions/1",
    "/v1/connectors/stamped/diff?from=1",
    "/allocated/connectors",
)


def test_what_a_plugin_says_is_a_secret_is_shown_nowhere(gateway, tmp_path):
    """Its name does not say so."""
    config = {
        "source.connector.class": "verifiable-source",
        "sink.connector.class": "picky-sink",
        "sink.file": str(tmp_path / "out"),
        "sink.stamp": CANARY,
    }
    body = {"name": "stamped", "config": config, "initial_state": "STOPPED"}
    made = gateway.post("/connectors", body)
    assert (made.status_code, made.json()["config"]["sink.stamp"]) == (201, "***")
    changed = made.json()["config"] | {"sink.file": str(tmp_path / "other")}
    compared = {"name": "stamped", "config": {**config, "sink.stamp": "another"}}
    answers = [
        made,
        gateway.put("/connectors/stamped/config", changed),
        gateway.post("/v1/connectors/compare", compared),
        *map(gateway.get, SHOWN),
    ]
    for answer in answers:
        assert answer.is_success, answer.text
        assert CANARY not in answer.text, answer.url
    stored = gateway.run(lambda: gateway.clients.config.get("stamped"))
    assert stored.config["sink.stamp"] == CANARY, "the mask that came back means the secret"
    copied = {"name": "copied", "config": {**config, "sink.ssl.password": "***"}}
    wrong = gateway.post("/connectors", copied)
    assert (wrong.status_code, wrong.json()["code"]) == (400, "config.masked")
    gateway.delete("/connectors/stamped")


def test_what_a_plugin_says_is_a_secret_is_a_secret_of_its_replay_too(gateway, tmp_path):
    """A replay has the sink of its connector."""
    config = {
        "source.connector.class": "verifiable-source",
        "sink.connector.class": "picky-sink",
        "sink.file": str(tmp_path / "out"),
        "sink.stamp": CANARY,
        "errors.tolerance": "all",
    }
    body = {"name": "again", "config": config, "initial_state": "STOPPED"}
    assert gateway.post("/connectors", body).is_success

    async def start():
        stored = await gateway.clients.config.get("again")
        replay = replay_connector(stored, [DeadLetterId(0, 0)], RowEdits())
        await run_replay(gateway.clients, None, None, replay)

    gateway.run(start)
    assert gateway.get("/connectors/again.replay/config").json()["sink.stamp"] == "***"
    for name in ("again", "again.replay"):
        gateway.delete(f"/connectors/{name}")


def test_what_a_plugin_says_is_a_secret_of_a_connector_file_is_shown_nowhere(gateway, tmp_path):
    """`penstock standalone`, `run` and `dev` store connectors without the gateway."""
    config = {
        "source.connector.class": "verifiable-source",
        "sink.connector.class": "picky-sink",
        "sink.file": str(tmp_path / "out"),
        "sink.stamp": CANARY,
    }
    written = Connector("filed", config, ConnectorKind.PIPELINE, target_state=TargetState.STOPPED)

    async def store():
        checked, _ = await validate_connector(gateway.clients.config, written)
        await gateway.clients.config.create(checked)

    gateway.run(store)
    answer = gateway.get("/connectors/filed/config")
    assert answer.json()["sink.stamp"] == "***"
    gateway.delete("/connectors/filed")
