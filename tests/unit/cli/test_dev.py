"""`penstock dev` runs what its file says, whatever an earlier run left."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from penstock.cli.dev import _FileWatcher, _StageLine
from penstock.model.connector import Connector, ConnectorKind, TargetState

PIPELINE = """
name: orders
source: {connector.class: verifiable-source}
sink: {connector.class: log-sink, pin: "1234"}
"""


class Config:
    """The config service: a put keeps the target state of what is stored."""

    def __init__(self, state: TargetState) -> None:
        self.stored = Connector("orders", {}, ConnectorKind.PIPELINE, state)
        self.restarts = 0

    async def validate(self, connector: Connector) -> Any:
        return SimpleNamespace(
            diagnostics=(), kind=ConnectorKind.PIPELINE, secret_keys=("sink.pin",)
        )

    async def put(self, connector: Connector, expected_revision: int = 0) -> tuple[Connector, bool]:
        self.stored = replace(connector, target_state=self.stored.target_state)
        return self.stored, True

    async def set_target_state(self, name: str, state: TargetState) -> Connector:
        self.stored = replace(self.stored, target_state=state)
        return self.stored

    async def request_restart(self, name: str, *, include_tasks: bool) -> None:
        assert include_tasks
        self.restarts += 1


async def nothing() -> None:
    pass


def test_a_pipeline_that_the_start_has_stopped_runs_with_its_secrets(tmp_path):
    """The start stops everything that is stored, also an earlier run of the same pipeline."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    config = Config(TargetState.STOPPED)
    node: Any = SimpleNamespace(config=config, worker=SimpleNamespace(reload_plugins=nothing))
    watcher = _FileWatcher(node, file, [], _StageLine())
    asyncio.run(watcher._apply())
    assert config.stored.target_state is TargetState.RUNNING
    assert config.stored.secret_keys == ("sink.pin",)
    asyncio.run(watcher._apply())
    assert config.restarts == 1, "a change of a plugin restarts what is configured as before"
