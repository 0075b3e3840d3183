"""Makes what runs equal to what is configured: on one machine, where every task belongs to this
worker.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.model.connector import Connector
from penstock.model.errors import Diagnostic
from penstock.standalone.node import Node
from penstock.worker.planning import refuse_errors


async def validate(node: Node, connector: Connector) -> tuple[Connector, Sequence[Diagnostic]]:
    """Return the connector with the kind its plugin gives it, and warnings.

    Raises:
        ConfigError: the configuration is wrong; everything that is wrong is in its detail.
    """
    checked = await node.worker.validate(connector)
    refuse_errors(checked.diagnostics)
    return Connector(connector.name, connector.config, checked.kind), checked.diagnostics


async def run_connector(node: Node, connector: Connector) -> Connector:
    """Store a connector, plan it and start its tasks; returns it as it is stored.

    Starting again after a crash is the same: an equal configuration keeps its generation and so its
    offsets, and the new plans get a new epoch, which fences whatever the crash left behind.
    """
    stored, _ = await node.config.put(connector)
    planned = await node.worker.plan(stored)
    epoch = await node.config.put_plans(stored.name, stored.generation, planned.plans)
    for plan in planned.plans:
        await node.worker.start_task(stored, plan, epoch)
    return stored
