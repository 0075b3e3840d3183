"""Validation: what is found about a configuration, and whether what it names can be reached."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

from penstock.client import ValidatedConnector
from penstock.model.config_def import single_errors
from penstock.model.config_size import check_size
from penstock.model.connector import Connector, ConnectorKind
from penstock.model.described import KeyValue
from penstock.model.errors import ConfigError, Diagnostic, PenstockError
from penstock.plugin import CheckStep, PluginHost
from penstock.secrets import NO_SECRETS, Secrets
from penstock.worker.bounds import NO_BOUNDS, Bounds
from penstock.worker.checking import findings_of, in_place
from penstock.worker.design import LETTERS_END, Design, acquire, design_of
from penstock.worker.hiding import unsaid


class Validator:
    """Validates connectors, with the plugins of a worker."""

    def __init__(
        self,
        host: PluginHost,
        functions: Sequence[Path] = (),
        secrets: Secrets = NO_SECRETS,
        bounds: Bounds = NO_BOUNDS,
    ) -> None:
        """`functions` are folders of Python functions; `bounds` says what connectors may have."""
        self._host, self._functions = host, functions
        self._secrets, self._bounds = secrets, bounds

    async def validate(self, connector: Connector) -> ValidatedConnector:
        """Return what is found about a configuration."""
        try:
            check_size(connector.name, connector.config)
            design = await self._design(connector)
        except PenstockError as error:
            wrong = tuple(one.diagnostic for one in single_errors(error))
            return ValidatedConnector(wrong, connector.kind)
        values: list[KeyValue] = []
        secret_keys: list[str] = []
        with unsaid(design.looked_up) as without:
            findings = await findings_of(
                self._host, design, self._functions, self._bounds.overrides
            )
            for end in _ends(design):
                try:
                    found, of_keys, of_secrets = await self._validated(end, design)
                except ConfigError as error:  # what names the plugin is wrong
                    findings.append(error.diagnostic)
                    continue
                findings += found
                values += of_keys
                secret_keys += of_secrets
        told = tuple(map(without, findings))
        return ValidatedConnector(told, design.kind, tuple(values), tuple(secret_keys))

    async def check(self, connector: Connector) -> AsyncGenerator[tuple[str, CheckStep], None]:
        """Iterate over the steps by which the plugins reach what they are configured for, each with
        its end: `source` or `sink`.

        Raises:
            PenstockError: the class is missing or not installed, or the plugin fails.
        """
        design = await self._design(connector)
        with unsaid(design.looked_up):
            for end in _ends(design):
                process, target = await acquire(self._host, design, end)
                async with aclosing(process.check(target)) as steps:
                    async for step in steps:
                        yield end, step

    async def _design(self, connector: Connector) -> Design:
        return await design_of(self._host, self._secrets, connector, self._bounds.reach)

    async def _validated(
        self, end: str, design: Design
    ) -> tuple[list[Diagnostic], list[KeyValue], list[str]]:
        """Return what the plugin of an end finds, its values, and those of the keys that it
        declares to be secrets.
        """
        process, target = await acquire(self._host, design, end)
        validation = await process.validate(target)
        found = [d for value in validation.values for d in value.diagnostics]
        findings = [in_place(d, design, end) for d in (*found, *validation.diagnostics)]
        values = []
        for value in validation.values:
            name = design.path(value.name, end)
            # what a reference stands for is told to nobody
            shown = design.connector.config[name] if name in design.masked else value.value
            values.append(KeyValue(name, shown, value.recommended, value.visible))
        given = target.config.keys() | target.secrets.keys()
        names = [key.name for key in process.spec.keys if key.sensitive or key.type == "password"]
        return findings, values, [design.path(name, end) for name in names if name in given]


def _ends(design: Design) -> list[str]:
    ends = []
    reads = design.settings.replay is None  # else letters are read, whatever the source was
    if reads and design.kind in {ConnectorKind.SOURCE, ConnectorKind.PIPELINE}:
        ends.append("source")
    if design.kind in {ConnectorKind.SINK, ConnectorKind.PIPELINE}:
        ends.append("sink")
    if design.parts.letters:
        ends.append(LETTERS_END)
    return ends
