"""What makes a connector a replay of another one's dead letters: its keys, read. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.model.config_def import ConfigKey
from penstock.model.connector import TaskPlan
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.replay import Changes, LetterId, read_changes, read_ids, read_object

REPLAY_KEYS: Final = (
    ConfigKey("replay.of", default="", doc="Connector whose dead letters are replayed."),
    ConfigKey("replay.letters", default="", doc="Letters to replay: 0/3,0/17-20."),
    ConfigKey("replay.set", "password", "", doc="Columns that change in all rows, in JSON."),
    ConfigKey("replay.edits", "password", "", doc="Columns that change, by letter, in JSON."),
)


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay: whose letters, which, and what is changed of their rows."""

    of: str
    letters: tuple[LetterId, ...] = ()
    changes: Changes = field(default_factory=Changes)

    def plan(self, topic: str) -> TaskPlan:
        """Return the one task of a replay: rows keep the order of their letters."""
        return TaskPlan("", tuple(letter.within(topic) for letter in self.letters))


def read_replay(values: Mapping[str, Any]) -> tuple[Replay | None, list[Diagnostic]]:
    """Return what the keys say, None for a connector that is no replay; and what is wrong."""
    if not values["replay.of"]:
        return None, []
    try:
        single = _edits(values["replay.edits"])
        changes = read_changes(values["replay.set"], single)
        return Replay(values["replay.of"], tuple(read_ids(values["replay.letters"])), changes), []
    except ConfigError as error:
        return Replay(values["replay.of"]), [error.diagnostic]


def replay_findings(replay: Replay | None, letters_topic: str, sink: bool) -> list[Diagnostic]:
    """Return what is wrong with a replay: its letters must be in a topic."""
    if replay is None or (letters_topic and not sink):
        return []
    return [
        ConfigError(
            "letters.no_topic",
            "a replay reads dead letters in a topic, and the connector has none for them",
            fix="Set `errors.deadletterqueue.topic.name`, and no sink of dead letters.",
            config_path="errors.deadletterqueue.topic.name",
        ).diagnostic
    ]


def _edits(text: str) -> dict[str, str]:
    return {name: json.dumps(one) for name, one in read_object(text, "`replay.edits`").items()}
