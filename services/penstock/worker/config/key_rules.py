"""What a person must have said about bad rows before a connector may run. Pure.

Nothing is lost in silence: who tolerates bad rows and names no place for them has a topic for them,
unless `errors.skip` says that they are to be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from penstock.model.config_def import no_effect, without_effect
from penstock.model.connector import ConnectorKind
from penstock.model.errors import ConfigError, Diagnostic, ErrorClass, Severity
from penstock.model.schema_drift import Policy
from penstock.worker.config.reach import Reach
from penstock.worker.config.sections import LETTERS_SINK, Sections, foreign_finding
from penstock.worker.config.settings import KEYS, ConnectorSettings
from penstock.worker.dead_letters.rejected_rows import LETTERS
from penstock.worker.dead_letters.replay import REPLAY_KEYS

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


def topic_findings(
    settings: ConnectorSettings, parts: Sections, kind: ConnectorKind, reach: Reach
) -> list[Diagnostic]:
    """Return an error for each topic that is named and may not be reached."""
    found = []
    for path, topic in _named(settings, parts, kind):
        try:
            reach.require_topic(topic, path)
        except ConfigError as error:
            found.append(error.diagnostic)
    return found


def _named(
    settings: ConnectorSettings, parts: Sections, kind: ConnectorKind
) -> Iterator[tuple[str, str]]:
    if kind in {ConnectorKind.SINK, ConnectorKind.MIRROR}:
        yield from (("topics", topic) for topic in settings.topics.names)
    if kind in {ConnectorKind.SOURCE, ConnectorKind.MIRROR} and parts.framework.get("topic"):
        yield "topic", settings.topic
    if settings.letters_topic and not parts.letters:
        yield f"{LETTERS}topic.name", settings.letters_topic


_SOURCE: Final = frozenset({ConnectorKind.SOURCE, ConnectorKind.MIRROR})
_SINK: Final = frozenset({ConnectorKind.SINK, ConnectorKind.MIRROR})
_PIPELINE: Final = frozenset({ConnectorKind.PIPELINE})

_OF_KINDS: Final[Mapping[str, tuple[frozenset[ConnectorKind], str]]] = {
    "topic": (_SOURCE | _PIPELINE, "a sink's rows have the names of the topics that it reads"),
    "topic.partitions": (_SOURCE | _SINK, "a pipeline has no topic"),
    "topic.retention": (_SOURCE, "only a source makes topics"),
    "topic.retention.bytes": (_SOURCE, "only a source makes topics"),
    "topics": (_SINK, "only a sink reads topics"),
    "topics.regex": (_SINK, "only a sink reads topics"),
    "auto.offset.reset": (_SINK, "only a sink reads topics"),
}
"""Keys that are for some kinds of connectors, and why the others have no use for them."""


def findings_without_effect(
    parts: Sections, settings: ConnectorSettings, kind: ConnectorKind
) -> list[Diagnostic]:
    """Return a warning for each key of the framework that was set and has no effect."""
    given = parts.framework
    found = [foreign_finding(key) for key in parts.not_yet]
    found += without_effect(KEYS, given)
    for key, (kinds, why) in _OF_KINDS.items():
        if key in given and kind not in kinds:
            found.append(no_effect(key, why))
    alone = [*_of_rejected_rows(parts, settings), *_of_scaling(settings), *_of_ends(parts, kind)]
    if settings.replay is None:
        why, fix = "without `replay.of`, nothing is replayed", "Set `replay.of`, or remove it."
        alone += [(key.name, why, fix) for key in REPLAY_KEYS]
    return found + [no_effect(key, why, fix) for key, why, fix in alone if key in given]


def _of_rejected_rows(
    parts: Sections, settings: ConnectorSettings
) -> Iterator[tuple[str, str, str]]:
    rules, headers = settings.letters, f"{LETTERS}context.headers.enable"
    tolerate = "Set `errors.tolerance`, or remove it."
    if rules.tolerance.none:
        why = "the first bad row ends the task, with the reason in its status"
        for key in ("errors.skip", "errors.log.enable", headers):
            yield key, why, tolerate
    elif rules.skip and (parts.letters or parts.framework.get(f"{LETTERS}topic.name")):
        yield "errors.skip", "bad rows go to the place that is named for dead letters", ""
    elif rules.skip:
        yield headers, "with `errors.skip`, no dead letters are written", ""
    if not rules.log:
        fix = "Set `errors.log.enable=true`, or remove it."
        yield "errors.log.include.messages", "bad rows are not logged", fix


def _of_scaling(settings: ConnectorSettings) -> Iterator[tuple[str, str, str]]:
    if settings.lag_target <= 0:
        why = "without `lag.target`, there are always `tasks.max` tasks"
        yield "tasks.min", why, "Set `lag.target`, or remove it."
    elif settings.tasks_min >= settings.tasks_max:
        why = f"`tasks.min` and `tasks.max` leave one number of tasks, {settings.tasks_max}"
        yield "lag.target", why, "Set a `tasks.max` that is more than `tasks.min`."


def _of_ends(parts: Sections, kind: ConnectorKind) -> Iterator[tuple[str, str, str]]:
    if kind is not ConnectorKind.PIPELINE:
        return
    for key in ("connector.class", "connector.plugin.version"):
        if parts.source.get(key) and parts.sink.get(key):
            yield key, f"`source.{key}` and `sink.{key}` are set", ""
