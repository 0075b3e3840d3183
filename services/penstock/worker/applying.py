"""What a connector owns outside: its plugins set it up, change it, and take it away again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.client import AppliedConnector
from penstock.model.connector import ApplyAction, Connector, ConnectorKind
from penstock.model.errors import Diagnostic, PenstockError
from penstock.plugin import PluginHost
from penstock.secrets import NO_SECRETS, Secrets
from penstock.worker.design import acquire, design_of, refuse_errors
from penstock.worker.hiding import unsaid
from penstock.worker.reach import NO_RULES, Rules

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

    async def apply(self, connector: Connector, action: ApplyAction) -> AppliedConnector:
        """Have each plugin of a connector do what an action asks for; tells what was done.

        Raises:
            PenstockError: a plugin refuses, fails, or is not installed.
        """
        design = await design_of(self._host, self._secrets, connector, self._reach)
        actions: list[str] = []
        findings: list[Diagnostic] = []
        ends = () if design.settings.replay is not None else _ENDS.get(design.kind, ())
        for end in ends:
            process, target = await acquire(self._host, design, end)
            with unsaid(design.looked_up) as without:
                try:
                    applied = await process.apply(target, action)
                except PenstockError as error:
                    if error.code == "plugin.unimplemented":
                        continue  # it owns nothing outside
                    raise
                found = [without(one) for one in applied.diagnostics]
                refuse_errors(found)
            actions += applied.actions
            findings += found
        return AppliedConnector(tuple(actions), tuple(findings))
