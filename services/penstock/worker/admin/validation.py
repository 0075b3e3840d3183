"""Keys of Kafka Connect that configurations carry along without effect here: still, what is wrong
with them is told, as Kafka Connect does. Pure.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.client import ValidatedConnector
from penstock.convert.registry import converter
from penstock.model.config_def import did_you_mean, single_errors
from penstock.model.config_size import check_size
from penstock.model.connector import Connector, ConnectorKind
from penstock.model.described import KeyValue
from penstock.model.errors import ConfigError, Diagnostic, PenstockError, Severity
from penstock.plugin import CheckStep, Kind, PluginHost
from penstock.secrets import NO_SECRETS, Secrets
from penstock.transform import chain_warnings
from penstock.worker.config.client_overrides import OverridePolicy
from penstock.worker.config.plugin_transforms import chain_of, kinds_of, refused_by
from penstock.worker.config.reach import NO_BOUNDS, Bounds
from penstock.worker.config.resolved_config import LETTERS_END, Design, acquire, design_of
from penstock.worker.config.sections import FRAMEWORK
from penstock.worker.redacted import unsaid

SIMPLE: Final = (
    "simple",
    "SimpleHeaderConverter",
    "org.apache.kafka.connect.storage.SimpleHeaderConverter",
)
"""Names of the converter that headers alone have: theirs are texts here anyhow."""

_ENDS: Final = ("key.converter", "value.converter", "header.converter")
_GROUPS: Final = "topic.creation.groups"
_OTHERS: Final = ("io.confluent.connect.", "io.apicurio.registry.", "com.amazonaws.services.")
"""Packages whose converters come with many configurations. They are not here, and nobody misses
them: rows of topics are columns."""


def carried_findings(
    config: Mapping[str, str], served: Callable[[str], Kind | None]
) -> list[Diagnostic]:
    """Return what is wrong; `served` tells what a plugin has under a name."""
    found = [one for key in _ENDS for one in _of_converter(key, config, served)]
    return [*found, *_of_groups(config)]


def _of_converter(
    path: str, config: Mapping[str, str], served: Callable[[str], Kind | None]
) -> Iterator[Diagnostic]:
    name = config.get(path, "").strip()
    if not name or name.startswith(_OTHERS) or (path.startswith("header") and name in SIMPLE):
        return
    kind = served(name)
    if kind is Kind.CONVERTER:
        return
    if kind is not None:
        yield _another_kind(path, name, kind)
        return
    prefix = f"{path}."
    own = {k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)}
    own.pop("plugin.version", None)  # a warning says already that it has no effect
    try:
        converter(name, own)
    except ConfigError as error:
        yield _at(error.diagnostic, path)


def _at(found: Diagnostic, path: str) -> Diagnostic:
    """A key that a converter does not have is passed over by Kafka Connect."""
    unknown = found.code == "config.unknown_key"
    where = f"{path}.{found.config_path}" if found.config_path else path
    severity = Severity.WARNING if unknown else found.severity
    return replace(found, config_path=where, severity=severity)


def _of_groups(config: Mapping[str, str]) -> Iterator[Diagnostic]:
    groups = [one.strip() for one in config.get(_GROUPS, "").split(",") if one.strip()]
    twice = sorted({one for one in groups if groups.count(one) > 1})
    if twice:
        yield ConfigError(
            "config.repeated",
            f"`{_GROUPS}` names {', '.join(twice)[:200]} more than once",
            fix="Name each group once.",
            config_path=_GROUPS,
        ).diagnostic


def _another_kind(path: str, name: str, kind: Kind) -> Diagnostic:
    return ConfigError(
        "plugin.wrong_kind",
        f"`{name[:200]}` is a {kind}, and no converter",
        fix="Name a converter, or leave the key out: rows of topics are columns here.",
        config_path=path,
    ).diagnostic


async def findings_of(
    host: PluginHost, design: Design, functions: Sequence[Path], overrides: OverridePolicy
) -> list[Diagnostic]:
    """Return all that is wrong, or worth a warning: its chain is built, its transforms' plugins are
    asked.
    """
    findings = [*design.findings, *overrides.findings(design.parts.overrides)]
    findings += chain_warnings(design.parts.chain)
    try:
        findings += carried_findings(design.values, kinds_of(host))
        chain = chain_of(host, design, functions)
        findings += await refused_by(host, chain, design)
    except PenstockError as error:
        findings += [one.diagnostic for one in single_errors(error)]
    if design.kind is ConnectorKind.SINK and not design.settings.topics:
        findings += [_no_topics(key) for key in ("topics", "topics.regex")]
    return findings


def in_place(found: Diagnostic, design: Design, end: str) -> Diagnostic:
    """Return what the plugin of an end says of a key, with what the key is called in the whole."""
    found = _with_framework(found, design.kind)
    return replace(found, config_path=design.path(found.config_path, end))


def _with_framework(found: Diagnostic, kind: ConnectorKind) -> Diagnostic:
    """An unknown key of a flat configuration may be a misspelt one of the framework."""
    if found.code != "config.unknown_key" or kind is ConnectorKind.PIPELINE:
        return found
    near = did_you_mean(found.config_path, FRAMEWORK)
    return replace(found, fix=near) if near.startswith("Did") else found


def _no_topics(key: str) -> Diagnostic:
    """Either of two keys would do, so both are marked, as Kafka Connect does."""
    return ConfigError(
        "config.missing",
        f"a sink reads topics, and `{key}` names none",
        fix="Set `topics` to one or more names, separated by commas, or `topics.regex`.",
        config_path=key,
    ).diagnostic


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
