"""What is found about a configuration, beside what the plugins of its ends say of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from penstock.model.config_def import did_you_mean, single_errors
from penstock.model.connector import ConnectorKind
from penstock.model.errors import ConfigError, Diagnostic, PenstockError
from penstock.plugin import PluginHost
from penstock.transform import chain_warnings
from penstock.worker.carried import carried_findings
from penstock.worker.design import Design
from penstock.worker.overrides import OverridePolicy
from penstock.worker.plugging import chain_of, kinds_of, refused_by
from penstock.worker.sections import FRAMEWORK


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
