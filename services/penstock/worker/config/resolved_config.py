"""A connector taken apart: whose keys are whose, with the values of its references."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from penstock.model.config_def import changed_errors, combined
from penstock.model.connector import Connector, ConnectorKind, Target
from penstock.model.errors import (
    ConfigError,
    Diagnostic,
    ErrorClass,
    PenstockError,
    Severity,
    error_of,
)
from penstock.model.replay import default_topic
from penstock.model.sensitive import is_sensitive
from penstock.plugin import ConnectorEntry, Kind, PluginHost, PluginProcess
from penstock.secrets import Resolved, Secrets
from penstock.telemetry import register_secret
from penstock.worker.config.key_rules import (
    findings_without_effect,
    letter_findings,
    topic_findings,
)
from penstock.worker.config.reach import ANYWHERE, NO_RULES, Reach, Rules, refuse_reserved
from penstock.worker.config.sections import (
    LETTERS_SINK,
    PLUGIN_KEYS,
    Sections,
    plugin_class,
    plugin_version,
    sections,
)
from penstock.worker.config.settings import OF_SCHEDULER, ConnectorSettings, read_settings
from penstock.worker.dead_letters.replay import replay_findings
from penstock.worker.ports import Watch
from penstock.worker.redacted import hidden, parts_of

log = logging.getLogger(__name__)


_KINDS: Mapping[Kind, ConnectorKind] = {
    Kind.SOURCE: ConnectorKind.SOURCE,
    Kind.SINK: ConnectorKind.SINK,
}


LETTERS_END: Final = LETTERS_SINK.rstrip(".")
"""The third end of a connector: a sink that takes its dead letters."""

OF_END: Final[Mapping[str, Kind]] = {
    "source": Kind.SOURCE,
    "sink": Kind.SINK,
    LETTERS_END: Kind.SINK,
}
"""What the plugin of an end has to be."""


_OF_TRANSFORM: Final = re.compile(r"(?:transforms|predicates)\.[^.]+\.")


@dataclass(frozen=True, slots=True)
class Design:
    """A connector taken apart: its kind, whose keys are whose, its settings, what was found.

    `connector` is as it is stored; `values` and `parts` have the values of its references, those
    at the keys of `answers`, which hold for `ttl` seconds (None: for ever). `reach` is what it may
    reach.
    """

    connector: Connector
    kind: ConnectorKind
    values: Mapping[str, str] = field(repr=False)
    parts: Sections = field(repr=False)
    settings: ConnectorSettings
    findings: tuple[Diagnostic, ...]
    answers: Mapping[str, frozenset[str]] = field(default_factory=dict, repr=False)
    ttl: float | None = None
    reach: Reach = ANYWHERE

    def target(self, end: str) -> Target:
        """Return the configuration of the plugin of an end.

        Raises:
            ConfigError: `config.missing`: nothing names it.
        """
        section = self._section(end)
        config = {key: value for key, value in section.items() if key not in PLUGIN_KEYS}
        secrets = self.secrets_of(config, self._prefix(end))
        # the class that a whole connector names is not that of its letters
        framework = {} if end == LETTERS_END else self.parts.framework
        return Target(
            plugin_class(section, framework, end, self.plugin_path("connector.class", end)),
            self.connector.name,
            {key: value for key, value in config.items() if key not in secrets},
            secrets,  # rule R17
            plugin_version(section, framework),
        )

    @property
    def masked(self) -> frozenset[str]:
        """The keys whose values came from providers of secrets."""
        return frozenset(self.answers)

    @property
    def looked_up(self) -> list[str]:
        """What its references stand for, and the whole values that they are parts of."""
        return _looked_up(self.values, self.answers)

    @property
    def letters_to(self) -> str:
        """What letters are called at their place; empty when there is none."""
        if self.parts.letters:
            return self.settings.letters_topic or default_topic(self.connector.name)
        return self.settings.letters_topic

    def path(self, key: str, end: str) -> str:
        """Return what a key of an end is called in the whole configuration."""
        return f"{prefix}.{key}" if (prefix := self._prefix(end)) else key

    def plugin_path(self, key: str, end: str) -> str:
        """Return what a key that says which plugin an end has is called: one that the whole
        connector has counts for its ends, but not for its letters.
        """
        said = self._section(end).get(key) or end == LETTERS_END
        return self.path(key, end) if said or not self.parts.framework.get(key) else key

    def _section(self, end: str) -> Mapping[str, str]:
        parts = self.parts
        return {"source": parts.source, "sink": parts.sink, LETTERS_END: parts.letters}[end]

    def _prefix(self, end: str) -> str:
        return end if self.kind is ConnectorKind.PIPELINE or end == LETTERS_END else ""

    def secrets_of(self, config: Mapping[str, str], path: str) -> dict[str, str]:
        """Return what is secret of the keys of a part, whose names in the whole configuration begin
        with `path`: what came by reference, and what its name says is one.
        """
        prefix = f"{path}." if path else ""
        return {
            key: value
            for key, value in config.items()
            if is_sensitive(key)
            or f"{prefix}{key}" in self.masked
            or f"{prefix}{key}" in self.connector.secret_keys
        }


async def acquire(
    host: PluginHost, design: Design, end: str, owner: str = ""
) -> tuple[PluginProcess, Target]:
    """Return the process that serves an end, and what it is told. `owner`: the task that has it
    for itself.

    Raises:
        PenstockError: as `PluginHost.acquire`, `plugin.wrong_kind`, `reach.plugin`; what is wrong
            with the key that names the plugin is told as that is called in the whole configuration.
    """
    target = design.target(end)
    try:
        _, entry = host.find(target.connector, target.version)
        if entry.kind is not OF_END[end]:
            raise _wrong_kind(entry, OF_END[end])
        process = await host.acquire(target.connector, target.version, owner)
        return process, design.reach.told(process.spec, target)
    except ConfigError as error:
        found = error.diagnostic
        if found.config_path not in PLUGIN_KEYS:
            raise
        path = design.plugin_path(found.config_path, end)
        raise error_of(replace(found, config_path=path)) from error


def _wrong_kind(entry: ConnectorEntry, wanted: Kind) -> ConfigError:
    return ConfigError(
        "plugin.wrong_kind",
        f"`{entry.name}` is a {entry.kind}, and no {wanted}",
        fix=f"Name a {wanted} here: `penstock plugins` lists what is installed.",
        config_path="connector.class",
    )


async def design_of(
    host: PluginHost, secrets: Secrets, connector: Connector, rules: Rules = NO_RULES
) -> Design:
    """Take a connector apart, with the values of its references. No plugin is started.

    Raises:
        PenstockError: its class is missing, or not installed; `secrets.*`, `reach.*`.
    """
    reach = rules.of(connector.name)
    reach.require_secrets(secrets.looked_up(connector.config))
    resolved = await secrets.resolve(connector.config)
    values = parts_of(_looked_up(resolved.config, resolved.answers))
    try:
        design = _designed(host, connector, resolved, reach)
    except PenstockError as error:
        raise changed_errors(error, lambda found: hidden(found, values)) from None
    findings = (*design.findings, *secrets.warnings(connector.config))
    return replace(design, findings=tuple(hidden(one, values) for one in findings))


def _designed(host: PluginHost, connector: Connector, resolved: Resolved, reach: Reach) -> Design:
    kind = connector.kind
    if kind is ConnectorKind.UNSPECIFIED:
        name = plugin_class({}, resolved.config, "connector", "connector.class")
        _, entry = host.find(name, plugin_version({}, resolved.config))
        kind = _kind_of(entry)
    parts = sections(resolved.config, kind)
    _refuse_reserved(parts, kind)
    for key in resolved.secret - parts.framework.keys():
        for value in (resolved.config[key], *resolved.answers[key]):
            register_secret(value)  # invariant 9
    settings, findings = read_settings({"name": connector.name, **parts.framework})
    told = {found.config_path for found in findings}
    idle = findings_without_effect(parts, settings, kind)
    findings += [found for found in idle if found.config_path not in told]
    findings += letter_findings(settings, parts, kind)
    findings += replay_findings(settings.replay, settings.letters_topic, bool(parts.letters))
    findings += topic_findings(settings, parts, kind, reach)
    findings += [_looked_up_by_nobody(key) for key in sorted(resolved.secret & OF_SCHEDULER)]
    return Design(
        replace(connector, kind=kind),
        kind,
        resolved.config,
        parts,
        settings,
        tuple(findings),
        resolved.answers,
        resolved.ttl,
        reach,
    )


def _refuse_reserved(parts: Sections, kind: ConnectorKind) -> None:
    two = kind is ConnectorKind.PIPELINE
    refuse_reserved(parts.source, "source." if two else "")
    refuse_reserved(parts.sink, "sink." if two else "")
    refuse_reserved(parts.letters, LETTERS_SINK)
    for key in parts.chain:
        if found := _OF_TRANSFORM.match(key):
            refuse_reserved([key[found.end() :]], found[0])


def _looked_up(values: Mapping[str, str], answers: Mapping[str, frozenset[str]]) -> list[str]:
    return [text for key in answers for text in (values[key], *answers[key])]


def _kind_of(entry: ConnectorEntry) -> ConnectorKind:
    kind = _KINDS.get(entry.kind)
    if kind is None:
        raise ConfigError(
            "plugin.wrong_kind",
            f"`{entry.name}` is a {entry.kind}, and no source or sink",
            fix="Name it in `transforms.<name>.type`, and a source or a sink here.",
            config_path="connector.class",
        )
    return kind


def refuse_errors(findings: Sequence[Diagnostic]) -> None:
    """Raise the errors among findings as one.

    Raises:
        ConfigError: a `CombinedError` when there is more than one.
    """
    errors = [found for found in findings if found.severity is not Severity.WARNING]
    if errors:
        raise combined(error_of(replace(one, error_class=ErrorClass.CONFIG)) for one in errors)


def _looked_up_by_nobody(key: str) -> Diagnostic:
    return ConfigError(
        "secrets.not_here",
        f"`{key}` is read by the scheduler, which looks no reference up",
        fix="Write the value itself: it is no secret.",
        config_path=key,
    ).diagnostic


AGAIN: Final = 10.0
"""Seconds until a provider that did not answer is asked again. What was read before goes on: a
secret that cannot be read is no secret that changed."""


class Renewal:
    """Watches the secrets of one life."""

    def __init__(self, secrets: Secrets, design: Design) -> None:
        self._secrets, self._design = secrets, design

    async def changed(self) -> None:
        """Return when a value is another one; never, for those that hold for ever."""
        if self._design.ttl is None or not self._design.settings.reload:
            await asyncio.Event().wait()
        connector, wait = self._design.connector, self._design.ttl or AGAIN
        while True:
            await asyncio.sleep(wait)
            try:
                resolved = await self._secrets.resolve(connector.config)
            except PenstockError as error:
                log.warning("secrets of %s could not be read again: %s", connector.name, error)
                wait = AGAIN
                continue
            if resolved.config != self._design.values:
                return
            wait = resolved.ttl or AGAIN


class Watched(NamedTuple):
    """What a life of a monitor listens to, and whether the secrets for that still hold."""

    watch: Watch
    renewal: Renewal
