"""A task whose system is not up: people see why, at once, and see no more of it once it is."""

from __future__ import annotations

import json
import re

import pytest

from penstock.cli.__main__ import main
from penstock_kit.testing import wait_until
from support.mosquitto import MosquittoServer


def shown(gateway, name):
    """Return the task as the gateway's own route shows it; None before there is one."""
    (one,) = gateway.get(f"/v1/status?connector={name}").json()["connectors"]
    return next(iter(one["tasks"]), None)


@pytest.mark.timeout(400)
def test_a_task_shows_its_last_attempt_until_the_server_is_up(gateway, made, tmp_path, capsys):
    server = MosquittoServer(tmp_path / "mosquitto")
    name = "plant-in"
    path = made(name, "RUNNING", **{
        "connector.class": "mqtt-source", "mqtt.topics": "plant/#", "kafka.topic": "plant",
        **server.keys,
    })  # fmt: skip

    def attempt():
        """Return the number of the attempt in the status of a task that is connecting."""
        task = shown(gateway, name)
        if task is None or task["state"] != "CONNECTING" or not task.get("trace"):
            return 0
        assert task["trace"].startswith("[mqtt.unavailable] no broker of `mqtt.server.uri`")
        assert f"127.0.0.1:{server.port}" in task["trace"]
        return int(re.search(r"\(attempt (\d+)\)", task["trace"]).group(1))

    wait_until(attempt, 120, "the status to say why")
    first = attempt()
    if first:  # the task gives up after a while, and is restarted: that has a state of its own
        wait_until(lambda: attempt() > first or restarts(gateway, name), 120, "the next attempt")
    (task,) = gateway.get(f"{path}/status").json()["tasks"]
    assert task["state"] in {"UNASSIGNED", "RESTARTING"}
    assert "[mqtt.unavailable]" in task["trace"]
    assert main(["connector", "status", name, "--server", f"http://{gateway.address}"]) == 0
    assert "mqtt.unavailable" in capsys.readouterr().out

    with server:
        gateway.until(path, "RUNNING")
        assert "trace" not in shown(gateway, name)
        (task,) = gateway.get(f"{path}/status").json()["tasks"]
        assert "trace" not in task
        server_option = ("--server", f"http://{gateway.address}", "-o", "json")
        assert main(["connector", "status", name, *server_option]) == 0
        (task,) = json.loads(capsys.readouterr().out)["tasks"]
        assert (task["state"], task.get("trace")) == ("RUNNING", None)


def test_a_sink_whose_database_is_away_says_so_at_once(gateway, made):
    """It makes attempts for 25 s before the task fails for the first time."""
    name, seen = "away-out", []
    made(name, "RUNNING", **{
        "connector.class": "jdbc-sink", "topics": "plant", "connection.attempts": "100000",
        "connection.backoff.ms": "50ms", "connection.url": "jdbc:postgresql://127.0.0.1:1/none",
        "connection.user": "nobody", "connection.password": "canary-4711",
    })  # fmt: skip

    def trace():
        found = (shown(gateway, name) or {}).get("trace") or ""
        return found if "(attempt " in found else ""

    wait_until(lambda: seen.append(trace()) or seen[-1], 120, "the status to say why")
    assert re.match(r"\[sql\.unreachable\] .*127\.0\.0\.1.*\(attempt \d+ of 100000\)", seen[-1])
    assert "canary-4711" not in seen[-1]


def restarts(gateway, name):
    """Return how often the task was restarted."""
    task = shown(gateway, name)
    return task["restarts"] if task else 0
