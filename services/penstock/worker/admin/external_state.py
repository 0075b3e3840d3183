"""Plugins create, change and remove what a connector owns in external systems, such as a
replication slot, and check offsets that an operator alters.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.connector_config.validation import refuse_errors
from penstock.model.admin import AlteredOffsets, AppliedConnector
from penstock.model.connector import ApplyAction, Connector, ConnectorKind, Partition, Target
from penstock.model.errors import ConfigError, Diagnostic, PenstockError, Severity
from penstock.model.offset import TIMESTAMP
from penstock.plugin.catalog.manifest import simple_names
from penstock.plugin.process.plugin_process import PluginProcess
from penstock.telemetry.redaction import redact_errors
from penstock.worker.config.resolved_config import ResolvedConfig, WorkerContext, acquire_plugin
from penstock_values.identity import partition_key

log = logging.getLogger(__name__)

_ROLES: Final[Mapping[ConnectorKind, tuple[str, ...]]] = {
    ConnectorKind.SOURCE: ("source",),
    ConnectorKind.SINK: ("sink",),
    ConnectorKind.PIPELINE: ("source", "sink"),
}
"""The plugins of a connector that may own external state."""


class StateApplier:
    """Lets plugins create, change and remove external state."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context

    async def apply(
        self, connector: Connector, action: ApplyAction, last: Connector | None = None
    ) -> AppliedConnector:
        """Apply an action with each plugin of a connector. Returns their warnings. `last` is the
        connector with the configuration that was applied last.

        Raises:
            PenstockError: a plugin refuses, fails, or is not installed.
        """
        resolved = await self._context.resolve(connector)
        before, findings = await self._resolve_last(last)
        roles = () if resolved.settings.replay is not None else _ROLES.get(resolved.kind, ())
        for role in roles:
            process, target = await acquire_plugin(self._context.host, resolved, role)
            looked_up = [*resolved.secret_texts, *(before.secret_texts if before else ())]
            with redact_errors(looked_up) as redact:
                try:
                    had = _last_target(before, resolved, role, process)
                    applied = await process.apply(target, action, last_applied=had)
                except PenstockError as error:
                    if error.code == "plugin.unimplemented":
                        continue  # it owns no external state
                    raise
                found = [redact(one) for one in applied.diagnostics]
                refuse_errors(found)
            for done in applied.actions:
                log.info("connector %s: %s", connector.name, done)
            findings += found
        return AppliedConnector(tuple(findings))

    async def _resolve_last(
        self, last: Connector | None
    ) -> tuple[ResolvedConfig | None, list[Diagnostic]]:
        """Return the configuration that was applied last; a warning when it cannot be resolved any
        more.
        """
        if last is None:
            return None, []
        try:
            return await self._context.resolve(last), []
        except PenstockError as error:
            return None, [_last_unknown(error)]


def _last_target(
    before: ResolvedConfig | None, resolved: ResolvedConfig, role: str, process: PluginProcess
) -> Target | None:
    """Return the last configuration of the plugin of a role; None when it was for another
    plugin.
    """
    if before is None or before.kind is not resolved.kind:
        return None
    target = before.target(role)
    spec = process.spec
    if target.connector not in {spec.name, *spec.aliases, *simple_names(spec.aliases)}:
        return None
    target = replace(before.without_unknown(spec, target), connector=spec.name)
    return before.reach.with_reach_keys(process.spec, target)


def _last_unknown(error: PenstockError) -> Diagnostic:
    why = ConfigError(
        "worker.last_applied",
        "the configuration that was applied last is not sent to the plugins: "
        f"{error.diagnostic.message}",
        fix="Remove external state of the earlier configuration by hand, such as a replication "
        "slot of another name.",
        config_path=error.diagnostic.config_path,
    )
    return replace(why.diagnostic, severity=Severity.WARNING)


_READS_PLUGIN: Final = frozenset({ConnectorKind.SOURCE, ConnectorKind.PIPELINE})


class OffsetAlterer:
    """Lets plugins check and convert altered offsets. It stores none."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context

    async def alter(
        self,
        connector: Connector,
        offsets: Mapping[str, Mapping[str, Any] | None],
        *,
        dry_run: bool,
    ) -> AlteredOffsets:
        """Return the offsets to store, by partition id; None deletes an offset.

        Raises:
            PenstockError: the plugin refuses them, fails, or is not installed.
        """
        resolved = await self._context.resolve(connector)
        roles = _offset_roles(resolved)
        if "source" not in roles:
            _refuse_times(offsets, "rows of embedded topics are not found by a time")
        altered = AlteredOffsets(plugin_called=False, offsets=offsets)
        with redact_errors(resolved.secret_texts):
            for role in roles:
                altered = await self._alter(resolved, role, altered, dry_run=dry_run)
        return altered

    async def _alter(
        self, resolved: ResolvedConfig, role: str, before: AlteredOffsets, *, dry_run: bool
    ) -> AlteredOffsets:
        process, target = await acquire_plugin(self._context.host, resolved, role)
        if not process.spec.alters_offsets:
            if role == "source":
                why = f"`{process.spec.name}` does not find rows by a time"
                _refuse_times(before.offsets, why)
            return before
        wanted = [Partition(partition_key(id_), offset) for id_, offset in before.offsets.items()]
        altered = await process.alter_offsets(target, wanted, dry_run=dry_run)
        called = before.plugin_called or not resolved.is_of_node(role)
        return AlteredOffsets(plugin_called=called, offsets={p.id: p.offset for p in altered})


def _offset_roles(resolved: ResolvedConfig) -> tuple[str, ...]:
    """Return the roles of the plugins that are called about offsets, in order; none where they are
    those of an embedded topic.
    """
    if resolved.settings.replay is not None:
        return ()  # a replay reads dead letters, not its source
    if resolved.kind in _READS_PLUGIN:
        return ("source",)
    if resolved.kind is not ConnectorKind.SINK:
        return ()
    return ("source", "sink") if resolved.on_broker else ("sink",)


def _refuse_times(offsets: Mapping[str, Mapping[str, Any] | None], why: str) -> None:
    if any(offset is not None and set(offset) == {TIMESTAMP} for offset in offsets.values()):
        raise ConfigError(
            "offset.no_time",
            why,
            fix="Set an offset; `penstock offsets rewind --to` restores those of an earlier time.",
        )
