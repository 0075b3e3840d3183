"""Describes connectors, transforms and converters with their keys, and validates configurations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from penstock.connector_config.keys import FRAMEWORK_KEYS
from penstock.connector_config.relative_paths import find_relative_paths
from penstock.model.admin import ValidatedConnector
from penstock.model.config_def import (
    ConfigValue,
    ConnectorDefinition,
    check_config_size,
    did_you_mean,
    split_errors,
)
from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError, Diagnostic, PenstockError, Severity
from penstock.plugin.catalog.manifest import Kind
from penstock.plugin.host import PluginHost
from penstock.plugin.responses import CheckStep, Validation
from penstock.telemetry.redaction import redact_errors
from penstock.transform.configuration import find_chain_warnings
from penstock.worker.admin.added_keys import find_added_keys
from penstock.worker.admin.framework_keys import CONVERTER_KEYS, framework_keys
from penstock.worker.config.broker_topics import topic_role
from penstock.worker.config.kafka_end import DEAD_LETTER_KEYS, to_connector_key
from penstock.worker.config.plugin_converters import validate_converters
from penstock.worker.config.plugin_transforms import (
    build_connector_chain,
    plugin_kinds,
    validate_plugin_transforms,
)
from penstock.worker.config.resolved_config import (
    DLQ_SINK,
    ResolvedConfig,
    WorkerContext,
    acquire_plugin,
)
from penstock.worker.config.unknown_keys import (
    tolerates_unknown_keys,
    unknown_key_warnings,
    without_keys,
)
from penstock_converters import InvalidConverterError
from penstock_converters.registry import (
    SIMPLE_HEADER_CONVERTER,
    create_converter,
    unknown_keys,
)

log = logging.getLogger(__name__)

_REGISTRY_CONVERTERS: Final = (
    "io.confluent.connect.",
    "io.apicurio.registry.",
    "com.amazonaws.services.",
)
"""Packages whose converters occur in many configurations. They are not needed here: rows of topics
are columns.
"""


def check_converters(
    config: Mapping[str, str], kind_of: Callable[[str], Kind | None], *, are_used: bool = False
) -> list[Diagnostic]:
    """Return errors in Kafka Connect's keys of converters, as Kafka Connect reports them. `kind_of`
    looks up the kind of a plugin. `are_used`: messages are converted, so that a converter which is
    not here is an error, too.
    """
    return [
        one
        for key in CONVERTER_KEYS
        for one in _check_converter(key, config, kind_of, are_used=are_used)
    ]


def _check_converter(
    path: str, config: Mapping[str, str], kind_of: Callable[[str], Kind | None], *, are_used: bool
) -> Iterator[Diagnostic]:
    name = config.get(path, "").strip()
    if (
        not name
        or (name.startswith(_REGISTRY_CONVERTERS) and not are_used)
        or (path.startswith("header") and name in SIMPLE_HEADER_CONVERTER)
    ):
        return
    kind = kind_of(name)
    if kind is Kind.CONVERTER:
        if are_used and path.startswith("header"):
            yield _not_for_headers(path, name)
        return
    if kind is not None:
        yield _not_a_converter(path, name, kind)
        return
    prefix = f"{path}."
    own = {k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)}
    own.pop("plugin.version", None)  # another warning covers it
    unknown = unknown_keys(name, own)
    for key in sorted(unknown):
        yield _unknown_key_warning(f"{prefix}{key}", name)
    try:
        create_converter(name, {key: own[key] for key in own if key not in unknown})
    except InvalidConverterError as error:
        where = f"{prefix}{error.config_path}" if error.config_path else path
        yield ConfigError(error.code, error.message, fix=error.fix, config_path=where).diagnostic


def _unknown_key_warning(key: str, name: str) -> Diagnostic:
    """Return the warning about a key that a converter does not have: Kafka Connect ignores it."""
    found = ConfigError(
        "config.unknown_key",
        f"the converter {name} has no key `{key}`, which has no effect",
        fix="Remove it, or keep it for Kafka Connect, which ignores it, too.",
        config_path=key,
    )
    return replace(found.diagnostic, severity=Severity.WARNING)


def _not_for_headers(path: str, name: str) -> Diagnostic:
    return ConfigError(
        "converter.plugin",
        f"`{path}` names `{name[:200]}`, a converter of a plugin, and those convert keys and "
        "values only",
        fix="Name one that ships: simple, string, json, or one of numbers.",
        config_path=path,
    ).diagnostic


def _not_a_converter(path: str, name: str, kind: Kind) -> Diagnostic:
    return ConfigError(
        "plugin.wrong_kind",
        f"`{path}` names `{name[:200]}`, which is a {kind}, not a converter",
        fix="Name a converter, or remove the key: rows of topics are columns here.",
        config_path=path,
    ).diagnostic


async def collect_findings(context: WorkerContext, resolved: ResolvedConfig) -> list[Diagnostic]:
    """Return all errors and warnings of a configuration. Builds its chain and calls the plugins of
    its transforms to validate.
    """
    findings = list(resolved.findings)
    findings += find_chain_warnings(resolved.sections.chain)
    try:
        kinds = plugin_kinds(context.host)
        if resolved.on_broker:
            topics = resolved.target(topic_role(resolved.kind)).config
            findings += check_converters({**resolved.values, **topics}, kinds, are_used=True)
        else:
            findings += check_converters(resolved.values, kinds)
        chain = build_connector_chain(context.host, resolved, context.functions)
        findings += await validate_plugin_transforms(context.host, chain, resolved)
    except PenstockError as error:
        findings += [one.diagnostic for one in split_errors(error)]
    return [*findings, *_check_topics(resolved)]


_KAFKAS: Final = "org.apache.kafka.connect"
_NEED_TOPIC: Final = frozenset(
    name
    for short, package in (("FileStreamSource", "file"), ("VerifiableSource", "tools"))
    for name in (short, f"{short}Connector", f"{_KAFKAS}.{package}.{short}Connector")
)
"""Names of Kafka Connect's sources that have the key `topic`, and need it. By its own name the same
source writes to a topic that is called as the connector is."""


def _check_topics(resolved: ResolvedConfig) -> Iterator[Diagnostic]:
    """Yield what Kafka Connect refuses in the keys that name topics."""
    framework, topics = resolved.sections.framework, resolved.settings.topics
    if resolved.kind is ConnectorKind.SOURCE:
        needs_topic = framework.get("connector.class", "").strip() in _NEED_TOPIC
        if needs_topic and not (framework.get("topic") or resolved.sections.source.get("dataset")):
            yield _missing_topic(framework["connector.class"])
    elif resolved.kind is ConnectorKind.SINK:
        keys = ("topics", "topics.regex")
        if not topics:
            yield from map(_missing_topics, keys)
        elif topics.names and topics.pattern is not None:
            yield from map(_contradicting_topics, keys)


def with_config_path(found: Diagnostic, resolved: ResolvedConfig, role: str) -> Diagnostic:
    """Return a plugin's diagnostic with the full name of the key."""
    found = _suggest_framework_key(found, resolved.kind)
    return replace(found, config_path=resolved.full_key(found.config_path, role))


def _suggest_framework_key(found: Diagnostic, kind: ConnectorKind) -> Diagnostic:
    """Suggest a key of the framework: an unknown key of a flat configuration may be a
    misspelt one, and one of a pipeline's source or sink may stand one level too deep.
    """
    if found.code != "config.unknown_key":
        return found
    if kind is ConnectorKind.PIPELINE:
        key = found.config_path
        fix = f"`{key}` is a key of the pipeline: write it beside `source` and `sink`."
        return replace(found, fix=fix) if key in FRAMEWORK_KEYS else found
    near = did_you_mean(found.config_path, FRAMEWORK_KEYS)
    return replace(found, fix=near) if near.startswith("Did") else found


def _missing_topics(key: str) -> Diagnostic:
    """Return the error for one of two keys. Either would do, so both are marked, as in Kafka
    Connect.
    """
    return ConfigError(
        "config.missing",
        f"a sink reads topics, and `{key}` names none",
        fix="Set `topics` to one or more names, separated by commas, or `topics.regex`.",
        config_path=key,
    ).diagnostic


def _contradicting_topics(key: str) -> Diagnostic:
    return ConfigError(
        "config.invalid_value",
        "`topics` and `topics.regex` are mutually exclusive options, but both are set",
        fix="Remove one of them; a pattern can list names, too: `orders|shop\\..*`.",
        config_path=key,
    ).diagnostic


def _missing_topic(name: str) -> Diagnostic:
    return ConfigError(
        "config.missing",
        f"`topic` has no value, and {name} needs one",
        fix="Set `topic` to the topic of its rows.",
        config_path="topic",
    ).diagnostic


class Validator:
    """Validates connectors with the plugins of a worker."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._reported: set[str] = set()

    async def validate(self, connector: Connector) -> ValidatedConnector:
        """Return the findings of a configuration, its values, and its secret and added keys."""
        try:
            check_config_size(connector.name, connector.config)
        except PenstockError as error:
            wrong = tuple(one.diagnostic for one in split_errors(error))
            return ValidatedConnector(wrong, connector.kind)
        added = await find_added_keys(self._context.host, connector.config)
        try:
            resolved = await self._context.resolve(connector)
        except PenstockError as error:
            wrong = tuple(one.diagnostic for one in split_errors(error))
            return ValidatedConnector(wrong, connector.kind, added.values, (), added.keys)
        values = list(added.values)
        secret_keys: list[str] = []
        with redact_errors(resolved.secret_texts) as redact:
            findings = await collect_findings(self._context, resolved)
            # at once: each of them may have a process to start
            calls = (self._validate_role(role, resolved) for role in resolved.roles)
            for outcome in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
                found, of_keys, of_secrets = outcome
                findings += found
                values += of_keys
                secret_keys += of_secrets
        # a wrong converter is found here, and by the plugin that would use it
        redacted = tuple(dict.fromkeys(map(redact, findings)))
        return ValidatedConnector(
            redacted, resolved.kind, tuple(values), tuple(secret_keys), added.keys
        )

    async def check(self, connector: Connector) -> AsyncGenerator[tuple[str, CheckStep], None]:
        """Iterate over the steps of a connection check, each with the role of its plugin: `source`,
        `sink`, or that of dead letters.

        Raises:
            PenstockError: the class is missing or not installed, or the plugin fails.
        """
        resolved = await self._context.resolve(connector)
        with redact_errors(resolved.secret_texts):
            for role in resolved.roles:
                process, target = await acquire_plugin(self._context.host, resolved, role)
                async with aclosing(process.check(target)) as steps:
                    async for step in steps:
                        yield role, step

    async def _validate_role(
        self, role: str, resolved: ResolvedConfig
    ) -> tuple[list[Diagnostic], list[ConfigValue], list[str]]:
        """Return as `_validate_plugin`; the values of a plugin of the node are its own matter."""
        if resolved.is_of_node(role):
            return await self._validate_node_plugin(role, resolved), [], []
        try:
            return await self._validate_plugin(role, resolved)
        except ConfigError as error:  # the key that selects the plugin is wrong
            return [error.diagnostic], [], []

    async def _validate_converters(self, role: str, resolved: ResolvedConfig) -> list[Diagnostic]:
        """Return the findings of converters that the plugin of a role calls."""
        host, target = self._context.host, resolved.target(role)
        return await validate_converters(host, target, resolved.reach)

    async def _validate_node_plugin(self, role: str, resolved: ResolvedConfig) -> list[Diagnostic]:
        """Return the findings of a plugin that is an end at the node's brokers, about keys of the
        connector and of the node.
        """
        process, target = await acquire_plugin(self._context.host, resolved, role)
        validation = await process.validate(target)
        found = [d for value in validation.values for d in value.diagnostics]
        findings = [
            *found,
            *validation.diagnostics,
            *await self._validate_converters(role, resolved),
        ]
        names = DEAD_LETTER_KEYS if role == DLQ_SINK else {}
        findings = [_with_connector_key(one, resolved.values, names) for one in findings]
        return [one for one in findings if not self._is_of_node(one, resolved)]

    def _is_of_node(self, found: Diagnostic, resolved: ResolvedConfig) -> bool:
        """Return whether a warning is about a key of the node's file, which no user of a connector
        can change. It is logged, once.
        """
        key = found.config_path
        if (
            found.severity is not Severity.WARNING
            or key in resolved.values
            or key not in self._context.brokers.keys
        ):
            return False
        if key not in self._reported:
            self._reported.add(key)
            log.warning("a key of the worker: %s", found.message)
        return True

    async def _validate_plugin(
        self, role: str, resolved: ResolvedConfig
    ) -> tuple[list[Diagnostic], list[ConfigValue], list[str]]:
        """Return the findings of the plugin of a role, the values of its keys, and which keys are
        secrets.
        """
        process, target = await acquire_plugin(self._context.host, resolved, role, whole=True)
        validation = await process.validate(target)
        found = _findings(validation)
        setting, name = resolved.settings.unknown_keys, resolved.target(role).connector
        is_tolerant = tolerates_unknown_keys(setting, process.spec, name)
        ignored = unknown_key_warnings(found) if is_tolerant else []
        if ignored:  # what else is wrong is found without them
            target = without_keys(target, (one.config_path for one in ignored))
            validation = await process.validate(target)
            found = [*ignored, *_findings(validation)]
        found += await self._validate_converters(role, resolved)
        findings = [with_config_path(d, resolved, role) for d in found]
        if role == "source" and not process.spec.source.replayable:
            findings += _check_replayable(resolved)
        given = target.config.keys() | target.secrets.keys()
        if self._context.is_shared:
            written = resolved.connector.config
            own = {resolved.full_key(name, role) for name in given} & written.keys()
            paths = {resolved.full_key(k.name, role) for k in process.spec.keys if k.type == "file"}
            findings += find_relative_paths(
                {key: written[key] for key in sorted(own)}, paths, resolved.kind
            )
        values = []
        for value in validation.values:
            name = resolved.full_key(value.name, role)
            # the value of a reference is never returned
            shown = (
                resolved.connector.config[name] if name in resolved.reference_keys else value.value
            )
            values.append(ConfigValue(name, shown, value.visible, value.recommended_values))
        names = [key.name for key in process.spec.keys if key.sensitive or key.type == "password"]
        return findings, values, [resolved.full_key(name, role) for name in names if name in given]


def _findings(validation: Validation) -> list[Diagnostic]:
    return [*(d for one in validation.values for d in one.diagnostics), *validation.diagnostics]


def _with_connector_key(
    found: Diagnostic, config: Mapping[str, str], names: Mapping[str, str]
) -> Diagnostic:
    """Return a diagnostic of the plugin at the brokers with the name that its key has in a
    connector.
    """
    key = to_connector_key(found.config_path, config, names)
    message = found.message.replace(f"`{found.config_path}`", f"`{key}`")
    return replace(found, config_path=key, message=message)


def _check_replayable(resolved: ResolvedConfig) -> Iterator[Diagnostic]:
    if resolved.settings.needs_replayable:
        key = "exactly.once.support"
        yield ConfigError(
            "delivery.not_replayable",
            f"`{key}` is required, and the source cannot read the same rows again",
            fix=f"Choose another source, or set `{key}=requested`: rows may then come twice after "
            "a crash.",
            config_path=key,
        ).diagnostic


async def describe_connector(
    host: PluginHost, name: str, version_range: str = ""
) -> ConnectorDefinition:
    """Return the definition of an installed connector, transform or converter.

    Raises:
        PenstockError: it is not installed, or its plugin cannot be started.
    """
    process = await host.acquire(name, version_range)
    spec = process.spec
    return ConnectorDefinition(
        spec.name,
        spec.kind.value if spec.kind else "",
        process.plugin,
        process.description.version,
        spec.keys,
        framework_keys(spec.kind),
    )
