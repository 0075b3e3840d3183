"""A connector's configuration in sections, with the values of its secret references."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from penstock.connector_config.dead_letters import check_replay
from penstock.connector_config.keys import (
    DLQ_SINK_PREFIX,
    EMBEDDED,
    PLUGIN_KEYS,
    SCHEDULER_KEYS,
)
from penstock.connector_config.sections import (
    ConfigSections,
    check_keys_without_effect,
    check_rejected_row_keys,
    is_own_key,
    named_topics,
    plugin_class,
    plugin_version,
    split_config,
)
from penstock.connector_config.settings import ConnectorSettings, read_settings
from penstock.connector_config.validation import refuse_errors
from penstock.model.config_def import map_errors
from penstock.model.config_redaction import is_sensitive_key
from penstock.model.connector import Connector, ConnectorKind, Target
from penstock.model.dead_letter_queue import default_dead_letter_topic
from penstock.model.errors import ConfigError, Diagnostic, PenstockError, error_from_diagnostic
from penstock.plugin.catalog.manifest import ConnectorEntry, Kind
from penstock.plugin.host import PluginHost
from penstock.plugin.process.plugin_process import PluginProcess
from penstock.plugin.responses import ConnectorSpec
from penstock.secrets.resolution import NO_SECRETS, ResolvedReferences, Secrets
from penstock.telemetry.redaction import redact_diagnostic, register_secret, with_list_items
from penstock.worker.config.broker_topics import (
    NO_BROKERS,
    BrokerTopics,
    client_prefixes,
    require_own_converters_within,
    select_backend,
    topic_role,
    with_topic_end,
)
from penstock.worker.config.client_overrides import OverridePolicy, unused_override
from penstock.worker.config.embedded_topics import KINDS as EMBEDDED_TOPIC_KINDS
from penstock.worker.config.embedded_topics import (
    NO_TOPIC_RULES,
    EmbeddedTopicRules,
    read_topic_rules,
    without_creation_keys,
)
from penstock.worker.config.plugin_converters import (
    attach_converters,
    refuse_process_keys,
    without_unknown_keys,
)
from penstock.worker.config.reach import (
    UNBOUNDED,
    UNRESTRICTED,
    ConnectorBounds,
    Reach,
    refuse_reserved,
)
from penstock.worker.config.unknown_keys import tolerates_unknown_keys, with_known_keys
from penstock.worker.ports import PartitionWatch
from penstock_values.converter_process import CONVERTER_KEYS

log = logging.getLogger(__name__)


_CONNECTOR_KINDS: Mapping[Kind, ConnectorKind] = {
    Kind.SOURCE: ConnectorKind.SOURCE,
    Kind.SINK: ConnectorKind.SINK,
}


DLQ_SINK: Final = DLQ_SINK_PREFIX.rstrip(".")
"""Role of a sink that takes the dead letters of a connector."""

PLUGIN_KINDS: Final[Mapping[str, Kind]] = {
    "source": Kind.SOURCE,
    "sink": Kind.SINK,
    DLQ_SINK: Kind.SINK,
}
"""The kind that the plugin of each role must have."""


_TRANSFORM_PREFIX: Final = re.compile(r"(?:transforms|predicates)\.[^.]+\.")


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """The configuration of a connector: its kind, sections, settings and findings.

    `connector` is as stored. `values` and `sections` have the values of its secret references.
    `secret_values` has what providers returned, by key, valid for `ttl` seconds (None: without
    limit). `reach` is what the connector may reach. `backend`: whose its topics are.
    `topic_rules`: how it makes embedded ones.
    """

    connector: Connector
    kind: ConnectorKind
    values: Mapping[str, str] = field(repr=False)
    sections: ConfigSections = field(repr=False)
    settings: ConnectorSettings
    findings: tuple[Diagnostic, ...]
    secret_values: Mapping[str, frozenset[str]] = field(default_factory=dict, repr=False)
    ttl: float | None = None
    reach: Reach = UNRESTRICTED
    backend: str = EMBEDDED
    topic_rules: EmbeddedTopicRules = NO_TOPIC_RULES

    @property
    def on_broker(self) -> bool:
        """Whether its topics are those of a broker."""
        return self.backend != EMBEDDED

    @property
    def reads_plugin(self) -> bool:
        """Whether its rows come from a plugin, and not from an embedded topic."""
        return self.on_broker or self.kind in {ConnectorKind.SOURCE, ConnectorKind.PIPELINE}

    @property
    def writes_plugin(self) -> bool:
        """Whether its rows go to a plugin, and not to an embedded topic."""
        return self.on_broker or self.kind in {ConnectorKind.SINK, ConnectorKind.PIPELINE}

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of its plugins."""
        reads = self.reads_plugin and self.settings.replay is None  # a replay reads dead letters
        has = {
            "source": reads,
            "sink": self.writes_plugin,
            DLQ_SINK: bool(self.sections.dead_letter_sink),
        }
        return tuple(role for role in PLUGIN_KINDS if has[role])

    def target(self, role: str) -> Target:
        """Return the configuration of the plugin of a role: `source`, `sink`, or `DLQ_SINK`.

        Raises:
            ConfigError: `config.missing`: no key names the plugin.
        """
        section = self._section(role)
        config = {key: value for key, value in section.items() if key not in PLUGIN_KEYS}
        secrets = self.select_secrets(config, self._prefix(role))
        # the class of the whole connector is not that of its dead-letter sink
        framework = {} if role == DLQ_SINK else self.sections.framework
        return Target(
            plugin_class(section, framework, role, self.plugin_key("connector.class", role)),
            self.connector.name,
            {key: value for key, value in config.items() if key not in secrets},
            secrets,  # rule R17
            plugin_version(section, framework),
        )

    @property
    def reference_keys(self) -> frozenset[str]:
        """The keys whose values contain secret references."""
        return frozenset(self.secret_values)

    @property
    def secret_texts(self) -> list[str]:
        """The values of its references, and the whole values that contain them."""
        return _secret_texts(self.values, self.secret_values)

    @property
    def dead_letter_dataset(self) -> str:
        """Name of the dead letters at their place; empty when there is none."""
        if self.sections.dead_letter_sink:
            return self.settings.dead_letter_topic or default_dead_letter_topic(self.connector.name)
        return self.settings.dead_letter_topic

    @property
    def has_broker_dead_letters(self) -> bool:
        """Whether its dead letters go to a topic of the brokers."""
        own = any(key.startswith(DLQ_SINK_PREFIX) for key in self.connector.config)
        return self.on_broker and bool(self.sections.dead_letter_sink) and not own

    def without_unknown(self, spec: ConnectorSpec, target: Target) -> Target:
        """Return a plugin's configuration without unknown keys, where they are tolerated."""
        tolerated = tolerates_unknown_keys(self.settings.unknown_keys, spec, target.connector)
        return with_known_keys(spec, target) if tolerated else target

    def is_of_node(self, role: str) -> bool:
        """Whether the plugin of a role is configured by the node: it is an end at its brokers."""
        if role == DLQ_SINK:
            return self.has_broker_dead_letters
        return self.on_broker and role == topic_role(self.kind)

    def full_key(self, key: str, role: str) -> str:
        """Return the name of a plugin's key in the whole configuration."""
        return f"{prefix}.{key}" if (prefix := self._prefix(role)) else key

    def plugin_key(self, key: str, role: str) -> str:
        """Return the full name of a key that selects the plugin of a role. A key of the whole
        connector counts for its source and sink, not for its dead letters.
        """
        is_set = self._section(role).get(key) or role == DLQ_SINK
        return self.full_key(key, role) if is_set or not self.sections.framework.get(key) else key

    def _section(self, role: str) -> Mapping[str, str]:
        sections = self.sections
        return {
            "source": sections.source,
            "sink": sections.sink,
            DLQ_SINK: sections.dead_letter_sink,
        }[role]

    def _prefix(self, role: str) -> str:
        return role if self.kind is ConnectorKind.PIPELINE or role == DLQ_SINK else ""

    def select_secrets(self, config: Mapping[str, str], path: str) -> dict[str, str]:
        """Return the secret values of a section whose full keys begin with `path`: values of
        references, and keys that are sensitive by name or by definition.
        """
        prefix = f"{path}." if path else ""
        return {
            key: value
            for key, value in config.items()
            if is_sensitive_key(key)
            or f"{prefix}{key}" in self.reference_keys
            or f"{prefix}{key}" in self.connector.secret_keys
        }


async def acquire_plugin(
    host: PluginHost,
    resolved: ResolvedConfig,
    role: str,
    task: str = "",
    *,
    isolated: bool = False,
    whole: bool = False,
) -> tuple[PluginProcess, Target]:
    """Return the plugin process of a role, and the configuration to send. `task` is who uses it,
    alone if `isolated`; else others use it, too, by `plugin.isolation`. `whole`: also with unknown
    keys that are tolerated, to be told of them.

    Raises:
        PenstockError: as `PluginHost.acquire`, `plugin.wrong_kind`, `reach.plugin`. Errors about
            the key that selects the plugin name it as the whole configuration does.
    """
    target = resolved.target(role)
    try:
        _, entry = host.find(target.connector, target.version)
        if entry.kind is not PLUGIN_KINDS[role]:
            raise _wrong_kind(entry, PLUGIN_KINDS[role])
        isolation = "task" if isolated else resolved.settings.isolation or host.isolation
        owner = process_owner(isolation, task, resolved.connector.generation)
        process = await host.acquire(target.connector, target.version, task, owner)
        if not whole:
            target = resolved.without_unknown(process.spec, target)
        # plugins know their own names and aliases, not the simple names of Java's classes
        target = replace(target, connector=entry.name)
        if not resolved.is_of_node(role):  # else the brokers are those of the node
            target = resolved.reach.with_reach_keys(process.spec, target)
        timeout_s = resolved.settings.stall_timeout_s
        return process, await attach_converters(host, process, target, resolved.reach, timeout_s)
    except ConfigError as error:
        found = error.diagnostic
        if found.config_path in PLUGIN_KEYS:
            path = resolved.plugin_key(found.config_path, role)
        elif found.config_path.startswith(CONVERTER_KEYS):
            path = resolved.full_key(found.config_path, role)
        else:
            raise
        raise error_from_diagnostic(replace(found, config_path=path)) from error


def process_owner(isolation: str, task: str, generation: str) -> str:
    """Return who owns the plugin processes of a task; empty when all tasks share them. Calls that
    are those of no task, such as checks and plans, hold no rows: they always share.
    """
    match isolation:
        case "task":
            return task
        case "connector" if task:
            return generation
    return ""


def _wrong_kind(entry: ConnectorEntry, wanted: Kind) -> ConfigError:
    return ConfigError(
        "plugin.wrong_kind",
        f"`{entry.name}` is a {entry.kind}, not a {wanted}",
        fix=f"Name a {wanted} here: `penstock plugins` lists the installed ones.",
        config_path="connector.class",
    )


async def resolve_config(
    host: PluginHost,
    secrets: Secrets,
    connector: Connector,
    bounds: ConnectorBounds = UNBOUNDED,
    brokers: BrokerTopics = NO_BROKERS,
) -> ResolvedConfig:
    """Return a connector's configuration with the values of its secret references. No plugin is
    started.

    Raises:
        PenstockError: its class is missing, or not installed; `secrets.*`, `reach.*`.
    """
    reach = bounds.reach.for_connector(connector.name)
    reach.require_secrets(secrets.known_references(connector.config))
    lookup = await secrets.resolve(connector.config)
    values = with_list_items(_secret_texts(lookup.config, lookup.secret_values))
    try:
        resolved = _resolve_sections(host, connector, lookup, reach, brokers, bounds.overrides)
        resolved = _with_override_findings(resolved, bounds.overrides)
    except PenstockError as error:
        raise map_errors(error, lambda found: redact_diagnostic(found, values)) from None
    findings = (*resolved.findings, *secrets.check_references(connector.config))
    return replace(resolved, findings=tuple(redact_diagnostic(one, values) for one in findings))


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What the tasks and the admin operations of a worker share: its plugins, its providers of
    secrets, the bounds of its node, and folders with Python functions of the user. `is_shared`: it
    is one of a cluster, so those who configure it do not know the folder that it was started in.
    """

    host: PluginHost
    secrets: Secrets = NO_SECRETS
    bounds: ConnectorBounds = UNBOUNDED
    functions: Sequence[Path] = ()
    brokers: BrokerTopics = NO_BROKERS
    is_shared: bool = False

    async def resolve(self, connector: Connector) -> ResolvedConfig:
        """Return the resolved configuration of a connector, as `resolve_config`."""
        return await resolve_config(self.host, self.secrets, connector, self.bounds, self.brokers)

    async def resolve_valid(self, connector: Connector) -> ResolvedConfig:
        """Return the resolved configuration of a connector without errors.

        Raises:
            PenstockError: as `resolve_config`, or the errors of its findings.
        """
        resolved = await self.resolve(connector)
        refuse_errors(resolved.findings)
        return resolved


def _resolve_sections(
    host: PluginHost,
    connector: Connector,
    lookup: ResolvedReferences,
    reach: Reach,
    brokers: BrokerTopics,
    overrides: OverridePolicy,
) -> ResolvedConfig:
    kind, entry = connector.kind, _find_entry(host, connector.kind, lookup.config)
    if kind is ConnectorKind.UNSPECIFIED:
        name = plugin_class({}, lookup.config, "connector", "connector.class")
        _, entry = host.find(name, plugin_version({}, lookup.config))
        kind = _connector_kind(entry)
    own = entry.own_keys if entry is not None else ()
    sections = split_config(lookup.config, kind, own)
    _refuse_reach_keys(sections, kind)
    refuse_process_keys(lookup.config)
    for key in lookup.reference_keys - sections.framework.keys():
        for value in (lookup.config[key], *lookup.secret_values[key]):
            register_secret(value)  # invariant 9
    settings, findings = read_settings({"name": connector.name, **sections.framework})
    findings += check_rejected_row_keys(settings, sections, kind)
    backend = select_backend(brokers, settings.topics_backend, kind)
    if backend != EMBEDDED:
        allowed = overrides.without_refused(lookup.config)
        others = {key: text for key, text in allowed.items() if not is_own_key(key, own)}
        plugin = entry.name if entry is not None else ""
        sections, found = with_topic_end(
            brokers, backend, sections, settings, kind, {**others, "name": connector.name}, plugin
        )
        if topic_role(kind) == "sink":
            sections = replace(sections, sink=without_unknown_keys(sections.sink))
        else:
            sections = replace(sections, source=without_unknown_keys(sections.source))
        findings += found
        reach.require_any_topic()
        require_own_converters_within(reach, lookup.config)
    topic_rules = NO_TOPIC_RULES
    if backend == EMBEDDED and kind in EMBEDDED_TOPIC_KINDS:
        topic_rules, found = read_topic_rules(sections, settings, lookup.config)
        sections = without_creation_keys(sections)
        findings += found
    reported = {found.config_path for found in findings}
    ineffective = check_keys_without_effect(sections, settings, kind)
    findings += [found for found in ineffective if found.config_path not in reported]
    findings += check_replay(
        settings.replay, settings.dead_letter_topic, bool(sections.dead_letter_sink)
    )
    findings += reach.check_topics(named_topics(settings, sections, kind))
    findings += [
        _reference_not_resolved(key)
        for key in sorted(lookup.reference_keys & {key.name for key in SCHEDULER_KEYS})
    ]
    return ResolvedConfig(
        replace(connector, kind=kind),
        kind,
        lookup.config,
        sections,
        settings,
        tuple(findings),
        lookup.secret_values,
        lookup.ttl_s,
        reach,
        backend,
        topic_rules,
    )


def _find_entry(
    host: PluginHost, kind: ConnectorKind, config: Mapping[str, str]
) -> ConnectorEntry | None:
    """Return the manifest's entry of a source or a sink; None where it is not installed: the error
    comes when its process is wanted.
    """
    name = config.get("connector.class")
    if kind not in {ConnectorKind.SOURCE, ConnectorKind.SINK} or not name:
        return None
    try:
        return host.find(name, plugin_version({}, config))[1]
    except ConfigError:
        return None


def _with_override_findings(resolved: ResolvedConfig, policy: OverridePolicy) -> ResolvedConfig:
    """Return the configuration with an error for each setting of a client that is refused, and a
    warning for each one whose client the connector does not have.
    """
    keys = resolved.sections.overrides
    used = client_prefixes(
        resolved.backend, resolved.kind, has_dead_letters=resolved.has_broker_dead_letters
    )
    unused = [key for key in keys if policy.allows(key) and not key.startswith(used)]
    found = (*policy.check(keys), *map(unused_override, unused))
    return replace(resolved, findings=(*resolved.findings, *found))


def _refuse_reach_keys(sections: ConfigSections, kind: ConnectorKind) -> None:
    is_pipeline = kind is ConnectorKind.PIPELINE
    refuse_reserved(sections.source, "source." if is_pipeline else "")
    refuse_reserved(sections.sink, "sink." if is_pipeline else "")
    refuse_reserved(sections.dead_letter_sink, DLQ_SINK_PREFIX)
    for key in sections.chain:
        if found := _TRANSFORM_PREFIX.match(key):
            refuse_reserved([key[found.end() :]], found[0])


def _secret_texts(values: Mapping[str, str], answers: Mapping[str, frozenset[str]]) -> list[str]:
    return [text for key in answers for text in (values[key], *answers[key])]


def _connector_kind(entry: ConnectorEntry) -> ConnectorKind:
    kind = _CONNECTOR_KINDS.get(entry.kind)
    if kind is None:
        raise ConfigError(
            "plugin.wrong_kind",
            f"`{entry.name}` is a {entry.kind}, not a source or sink",
            fix="Name it in `transforms.<name>.type`, and name a source or a sink here.",
            config_path="connector.class",
        )
    return kind


def _reference_not_resolved(key: str) -> Diagnostic:
    return ConfigError(
        "secrets.not_here",
        f"`{key}` has a secret reference, but the scheduler reads it and resolves no references",
        fix="Write the value itself: it is not a secret.",
        config_path=key,
    ).diagnostic


RETRY_AFTER_S: Final = 10.0
"""Time until a provider that failed is called again. The run continues with the earlier value: a
failed lookup is no change.
"""


class SecretWatch:
    """Watches the secrets of one run."""

    def __init__(self, secrets: Secrets, resolved: ResolvedConfig) -> None:
        self._secrets, self._resolved = secrets, resolved

    async def wait_for_change(self) -> None:
        """Return when a value has changed. Never returns when the values are valid without
        limit.
        """
        if self._resolved.ttl is None or not self._resolved.settings.restarts_on_reload:
            await asyncio.Event().wait()
        connector, wait = self._resolved.connector, self._resolved.ttl or RETRY_AFTER_S
        while True:
            await asyncio.sleep(wait)
            try:
                lookup = await self._secrets.resolve(connector.config)
            except PenstockError as error:
                log.warning("cannot refresh the secrets of %s: %s", connector.name, error)
                wait = RETRY_AFTER_S
                continue
            if lookup.config != self._resolved.values:
                return
            wait = lookup.ttl_s or RETRY_AFTER_S


class WatchSpec(NamedTuple):
    """The partition watch of one run of a monitor, and the watch of its secrets."""

    watch: PartitionWatch
    secret_watch: SecretWatch
