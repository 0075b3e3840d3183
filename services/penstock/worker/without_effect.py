"""Keys that were set and do nothing in this configuration: each gets a warning that says why. Pure.

A key may be of no use anywhere here (`ConfigKey.no_effect`, keys of Kafka Connect), be for another
kind of connector, or count only together with another key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from penstock.model.config_def import no_effect, without_effect
from penstock.model.connector import ConnectorKind
from penstock.model.errors import Diagnostic
from penstock.worker.letters import LETTERS
from penstock.worker.replay_rules import REPLAY_KEYS
from penstock.worker.sections import Sections, foreign_finding
from penstock.worker.settings import KEYS, ConnectorSettings

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
