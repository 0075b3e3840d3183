"""Offsets that a person wants to set, as the connector's plugin sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.client import AlteredOffsets
from penstock.model.connector import Connector, ConnectorKind, Partition
from penstock.model.identity import partition_key
from penstock.plugin import PluginHost
from penstock.secrets import NO_SECRETS, Secrets
from penstock.worker.design import Design, acquire, design_of, refuse_errors
from penstock.worker.hiding import unsaid
from penstock.worker.reach import NO_RULES, Rules

_READS_PLUGIN: Final = frozenset({ConnectorKind.SOURCE, ConnectorKind.PIPELINE})


class Alterer:
    """Asks plugins about offsets; stores none."""

    def __init__(
        self, host: PluginHost, secrets: Secrets = NO_SECRETS, reach: Rules = NO_RULES
    ) -> None:
        self._host, self._secrets, self._reach = host, secrets, reach

    async def alter(
        self,
        connector: Connector,
        offsets: Mapping[str, Mapping[str, Any] | None],
        *,
        dry_run: bool,
    ) -> AlteredOffsets:
        """Return what is to be stored of offsets by partition id; None takes one away.

        Raises:
            PenstockError: the plugin refuses them, fails, or is not installed.
        """
        design = await design_of(self._host, self._secrets, connector, self._reach)
        if not (end := _asked(design)):
            return AlteredOffsets(asked=False, offsets=offsets)
        process, target = await acquire(self._host, design, end)
        if not process.spec.alters_offsets:
            return AlteredOffsets(asked=False, offsets=offsets)
        wanted = [Partition(partition_key(id_), offset) for id_, offset in offsets.items()]
        with unsaid(design.looked_up) as without:
            altered = await process.alter_offsets(target, wanted, dry_run=dry_run)
            refuse_errors([without(found) for found in altered.diagnostics])
        return AlteredOffsets(asked=True, offsets={p.id: p.offset for p in altered.partitions})


def _asked(design: Design) -> str:
    """Return the end whose offsets they are; empty where it is no plugin."""
    if design.settings.replay is not None:
        return ""  # letters are read, whatever the source was
    if design.kind in _READS_PLUGIN:
        return "source"
    return "sink" if design.kind is ConnectorKind.SINK else ""
