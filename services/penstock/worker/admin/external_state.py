"""What a connector owns outside: its plugins set it up, change it, and take it away again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.client import AlteredOffsets, AppliedConnector
from penstock.model.connector import ApplyAction, Connector, ConnectorKind, Partition, Target
from penstock.model.errors import ConfigError, Diagnostic, PenstockError, Severity
from penstock.model.identity import partition_key
from penstock.plugin import PluginHost, PluginProcess
from penstock.secrets import NO_SECRETS, Secrets
from penstock.worker.config.reach import NO_RULES, Rules
from penstock.worker.config.resolved_config import Design, acquire, design_of, refuse_errors
from penstock.worker.redacted import unsaid

_ENDS: Final[Mapping[ConnectorKind, tuple[str, ...]]] = {
    ConnectorKind.SOURCE: ("source",),
    ConnectorKind.SINK: ("sink",),
    ConnectorKind.PIPELINE: ("source", "sink"),
}
"""The plugins of a connector that may own something outside."""


class Applier:
    """Asks plugins to change what is outside."""

    def __init__(
        self, host: PluginHost, secrets: Secrets = NO_SECRETS, reach: Rules = NO_RULES
    ) -> None:
        self._host, self._secrets, self._reach = host, secrets, reach

    async def apply(
        self, connector: Connector, action: ApplyAction, last: Connector | None = None
    ) -> AppliedConnector:
        """Have each plugin of a connector do what an action asks for; tells what was done. `last`
        has the configuration that was applied last.

        Raises:
            PenstockError: a plugin refuses, fails, or is not installed.
        """
        design = await design_of(self._host, self._secrets, connector, self._reach)
        before, findings = await self._before(last)
        actions: list[str] = []
        ends = () if design.settings.replay is not None else _ENDS.get(design.kind, ())
        for end in ends:
            process, target = await acquire(self._host, design, end)
            looked_up = [*design.looked_up, *(before.looked_up if before else ())]
            with unsaid(looked_up) as without:
                try:
                    had = _last_target(before, design, end, process)
                    applied = await process.apply(target, action, last_applied=had)
                except PenstockError as error:
                    if error.code == "plugin.unimplemented":
                        continue  # it owns nothing outside
                    raise
                found = [without(one) for one in applied.diagnostics]
                refuse_errors(found)
            actions += applied.actions
            findings += found
        return AppliedConnector(tuple(actions), tuple(findings))

    async def _before(self, last: Connector | None) -> tuple[Design | None, list[Diagnostic]]:
        """Return what was applied last; a warning where that cannot be taken apart any more."""
        if last is None:
            return None, []
        try:
            return await design_of(self._host, self._secrets, last, self._reach), []
        except PenstockError as error:
            return None, [_unknown(error)]


def _last_target(
    before: Design | None, design: Design, end: str, process: PluginProcess
) -> Target | None:
    """Return what the plugin of an end was told last; None where it was another connector."""
    if before is None or before.kind is not design.kind:
        return None
    target = before.target(end)
    names = (process.spec.name, *process.spec.aliases)
    return before.reach.told(process.spec, target) if target.connector in names else None


def _unknown(error: PenstockError) -> Diagnostic:
    why = ConfigError(
        "worker.last_applied",
        f"plugins are not told which configuration was applied last: {error.diagnostic.message}",
        fix="Remove by hand what only the earlier configuration had outside, such as a slot of "
        "another name.",
        config_path=error.diagnostic.config_path,
    )
    return replace(why.diagnostic, severity=Severity.WARNING)


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
