"""A replay of dead letters is a connector of its own, beside the one whose they are. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError
from penstock.model.replay import SUFFIX, Changes, LetterId, default_topic, written_ids

TOPIC: Final = "errors.deadletterqueue.topic.name"
_SINK: Final = "errors.deadletterqueue.sink."

_OF: Final = "replay.of"
_NOT_KEPT: Final = ("lag.target", "tasks.min", "placement")
"""Keys that are about many tasks, or where they run."""


def letters_topic(connector: Connector) -> str:
    """Return the topic that has a connector's dead letters.

    Raises:
        ConfigError: `letters.no_topic`.
    """
    topic = connector.config.get(TOPIC) or _usual(connector)
    if topic and not any(key.startswith(_SINK) for key in connector.config):
        return topic
    raise ConfigError(
        "letters.no_topic",
        f"{connector.name} has no topic of dead letters",
        fix=f"Letters that go to a sink are looked at there. Name a topic in `{TOPIC}`, and the "
        "next ones can be replayed.",
        config_path=TOPIC,
    )


def _usual(connector: Connector) -> str:
    """Return the topic of one that tolerates bad rows and names no place."""
    tolerant = connector.config.get("errors.tolerance", "none") != "none"
    skips = connector.config.get("errors.skip", "false") == "true"
    return default_topic(connector.name) if tolerant and not skips else ""


def name_of(connector: Connector) -> str:
    """Return the name of the connector that replays another one's letters."""
    return f"{connector.name}{SUFFIX}"


def refuse_foreign(found: Connector, of: str) -> None:
    """Refuse a connector that has the name of a replay and is none.

    Raises:
        ConfigError: `letters.name_taken`.
    """
    if found.config.get(_OF) != of:
        raise ConfigError(
            "letters.name_taken",
            f"{found.name} is no replay of {of}, and has the name of one",
            fix="Give that connector another name.",
        )


def replay_of(connector: Connector, letters: Iterable[LetterId], changes: Changes) -> Connector:
    """Return the connector that replays letters: the chain and the write end of the one whose they
    are, and its place for dead letters. Rows that name no dataset go where they went.
    """
    config = {key: value for key, value in connector.config.items() if key not in _NOT_KEPT}
    if connector.kind in {ConnectorKind.SOURCE, ConnectorKind.PIPELINE}:
        config.setdefault("topic", connector.name)
    single = {str(letter): dict(one) for letter, one in sorted(changes.single.items())}
    config |= {
        "name": name_of(connector),
        "tasks.max": "1",
        "errors.tolerance": "all",  # what fails again gets a letter again
        TOPIC: letters_topic(connector),  # also where nobody has named it
        _OF: connector.name,
        "replay.letters": written_ids(letters),
        "replay.set": _json(changes.every),
        "replay.edits": _json(single),
    }
    return Connector(name_of(connector), config, connector.kind)


def _json(value: Mapping[str, object]) -> str:
    # text of a configuration is looked through for references: `${` must not be one of a row
    text = json.dumps(value, sort_keys=True, separators=(",", ":")) if value else ""
    return text.replace("${", "\\u0024{")
