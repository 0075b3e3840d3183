"""What is found of the topics that a configuration names, where rules say what it may reach. Pure.

Routers, patterns and datasets make other names while a task runs: those are compared where a topic
is opened.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model.connector import ConnectorKind
from penstock.model.errors import ConfigError, Diagnostic
from penstock.worker.letters import LETTERS
from penstock.worker.reach import Reach
from penstock.worker.sections import Sections
from penstock.worker.settings import ConnectorSettings


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
