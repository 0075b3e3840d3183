"""Says what should run on this machine, and lets it run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.model.connector import Connector, TargetState
from penstock.model.errors import Diagnostic
from penstock.standalone.node import Node
from penstock.worker.config.resolved_config import refuse_errors


async def validate(node: Node, connector: Connector) -> tuple[Connector, Sequence[Diagnostic]]:
    """Return the connector with the kind and secret keys that its plugins give it, and warnings.

    Raises:
        ConfigError: the configuration is wrong; everything that is wrong is in its detail.
    """
    checked = await node.worker.validate(connector)
    refuse_errors(checked.diagnostics)
    found = replace(connector, kind=checked.kind, secret_keys=checked.secret_keys)
    return found, checked.diagnostics


async def run_only(node: Node, connectors: Sequence[Connector]) -> None:
    """Run these connectors, where they want no other state, and no others that the state knows from
    earlier: those are stopped and keep their offsets.

    Starting again after a crash is the same: an equal configuration keeps its generation and so its
    offsets, and its tasks get new epochs, which fence whatever the crash left behind.
    """
    names = {connector.name for connector in connectors}
    for known in (await node.config.list()).connectors:
        if known.name not in names and known.target_state is not TargetState.STOPPED:
            await node.config.set_target_state(known.name, TargetState.STOPPED)
    for connector in connectors:
        stored, _ = await node.config.put(connector)
        wanted = connector.target_state or TargetState.RUNNING
        if stored.target_state is not wanted:
            await node.config.set_target_state(stored.name, wanted)
    await node.begin()
