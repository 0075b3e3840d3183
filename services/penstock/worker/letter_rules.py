"""What a person must have said about bad rows before a connector may run. Pure.

Nothing is lost in silence: who tolerates bad rows and names no place for them has a topic for them,
unless `errors.skip` says that they are to be forgotten.
"""

from __future__ import annotations

from typing import Final

from penstock.model.connector import ConnectorKind
from penstock.model.drift import Policy
from penstock.model.errors import ConfigError, Diagnostic, ErrorClass, Severity
from penstock.worker.letters import LETTERS
from penstock.worker.sections import LETTERS_SINK, Sections
from penstock.worker.settings import ConnectorSettings

_TOPIC: Final = f"{LETTERS}topic.name"


def letter_findings(
    settings: ConnectorSettings, parts: Sections, kind: ConnectorKind
) -> list[Diagnostic]:
    """Return what is wrong with what a connector says about bad rows, or worth a warning."""
    rules, topic, sink = settings.letters, settings.letters_topic, bool(parts.letters)
    tolerant, place = not rules.tolerance.none, bool(parts.framework.get(_TOPIC)) or sink
    found = []
    if tolerant and not place and not rules.skip:
        found.append(
            Diagnostic(
                "errors.no_place",
                f"no place is named for bad rows: they go to the topic {topic!r}",
                ErrorClass.CONFIG,
                Severity.WARNING,
                fix=f"Name a topic in `{_TOPIC}`, or a sink in `{LETTERS_SINK}connector.class`; or "
                "say `errors.skip=true` to forget them.",
                config_path="errors.tolerance",
            )
        )
    if place and not tolerant:
        found.append(
            Diagnostic(
                "errors.not_tolerated",
                "there is a place for dead letters, and no bad row is tolerated: the first one "
                "ends the task",
                ErrorClass.CONFIG,
                Severity.WARNING,
                fix="Set `errors.tolerance` to `all`, or to a number of rows among others: 5/1000.",
                config_path="errors.tolerance",
            )
        )
    if settings.drift.policy is Policy.DEAD_LETTER and not tolerant:
        found.append(_nowhere_to_drift())
    if topic and not sink and _is_own(topic, settings, kind):
        found.append(
            ConfigError(
                "errors.loop",
                f"dead letters would go to {topic!r}, where the connector's own rows are",
                fix="Name another topic.",
                config_path=_TOPIC,
            ).diagnostic
        )
    return found


def _is_own(topic: str, settings: ConnectorSettings, kind: ConnectorKind) -> bool:
    reads = kind in {ConnectorKind.SINK, ConnectorKind.MIRROR}
    writes = kind in {ConnectorKind.SOURCE, ConnectorKind.MIRROR}
    return (reads and topic in settings.topics.among([topic])) or (
        writes and topic == settings.topic
    )


def _nowhere_to_drift() -> Diagnostic:
    return ConfigError(
        "errors.not_tolerated",
        "rows whose columns changed are to become dead letters, and no bad row is tolerated",
        fix="Set `errors.tolerance` to `all`, or take another `schema.evolution`.",
        config_path="schema.evolution",
    ).diagnostic
