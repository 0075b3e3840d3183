"""A bulk request: its actions, and what became of each. Pure.

A document is in a request once: of several actions for it the last one is left, or the one with the
highest version. So an action that is sent again on its own never comes behind a newer one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from penstock_connector import ConfigError, ConnectorError, DataError, RetriableError, Staging
from penstock_search.elasticsearch_sink.answers import item_error
from penstock_search.elasticsearch_sink.documents import ActionKind


@dataclass(frozen=True, slots=True)
class Action:
    """What is done with a document.

    Attributes:
        staging: Where its row waits.
        number: The row's number there.
        id: The document; None: the server makes an id.
        version: Its version; None: it has none.
        text: Its lines of the request.
    """

    staging: Staging
    number: int
    kind: ActionKind
    id: str | None
    version: int | None
    text: bytes


@dataclass(slots=True)
class BulkRequest:
    """Actions of a request, in their order."""

    actions: list[Action] = field(default_factory=list)
    size: int = 0
    _places: dict[tuple[str, bytes], int] = field(default_factory=dict)

    def takes(self, action: Action, max_actions: int, max_bytes: int) -> bool:
        """Return whether there is room for an action, and it may stand behind the others."""
        if not self.actions:
            return True
        if len(self.actions) >= max_actions or 0 < max_bytes < self.size + len(action.text):
            return False
        place = self._places.get(_document_of(action))
        return place is None or _replaces(action, self.actions[place]) is not None

    def add(self, action: Action) -> None:
        """Add an action, in the place of an older one for its document."""
        document = _document_of(action)
        place = self._places.get(document)
        if place is None:
            if action.id is not None:
                self._places[document] = len(self.actions)
            self.actions.append(action)
            self.size += len(action.text)
        elif _replaces(action, self.actions[place]):
            self.size += len(action.text) - len(self.actions[place].text)
            self.actions[place] = action


def _document_of(action: Action) -> tuple[str, bytes]:
    """Return what names the document of an action: its id, and its index and routing, which begin
    its text behind the word for what is done.
    """
    if action.id is None:
        return "", b""
    head = action.text.partition(b'{"_index":')[2]
    return action.id, head.partition(b",")[0]


def _replaces(action: Action, older: Action) -> bool | None:
    """Return whether an action makes an older one for its document vain, or is vain itself (False);
    None: both must be sent, one after the other.
    """
    if ActionKind.UPDATE in {action.kind, older.kind}:
        return None
    if ActionKind.CREATE in {action.kind, older.kind}:
        return False if action.kind is older.kind else None
    if action.version is None or older.version is None:
        return True if action.version is older.version else None
    return action.version >= older.version


class Outcome(Enum):
    """What became of an action that the server has done, or need not do."""

    WRITTEN = "written"
    STALE = "stale"


@dataclass(slots=True)
class Outcomes:
    """What became of the actions of a request.

    Attributes:
        written: How many documents were changed.
        stale: How many were there already, as they are or newer.
        refused: Those that the server can never take.
        again: Those that it could not take now.
        error: Why, of the first of them.
    """

    written: int = 0
    stale: int = 0
    refused: list[tuple[Action, DataError]] = field(default_factory=list)
    again: list[Action] = field(default_factory=list)
    error: RetriableError | None = None


def read_outcomes(answer: Any, actions: Sequence[Action], where: str) -> Outcomes:
    """Return what became of actions, by what the server answers to their request.

    Raises:
        ConfigError: `elasticsearch.not_json`: it is not an answer to these actions.
        ConnectorError: an action failed for a reason that all others have, too.
    """
    items = answer.get("items") if isinstance(answer, Mapping) else None
    if not isinstance(items, list) or len(items) != len(actions):
        raise ConfigError(
            "elasticsearch.not_json",
            f"{where}: its answer to a bulk request of {len(actions)} documents is not one of "
            "Elasticsearch",
            fix="Check that `connection.url` is that of Elasticsearch or OpenSearch.",
            config_path="connection.url",
        )
    found = Outcomes()
    for action, item in zip(actions, items, strict=True):
        (result,) = item.values() if isinstance(item, Mapping) and len(item) == 1 else ({},)
        outcome = _outcome(action, result if isinstance(result, Mapping) else {}, where)
        match outcome:
            case Outcome.WRITTEN:
                found.written += 1
            case Outcome.STALE:
                found.stale += 1
            case DataError():
                found.refused.append((action, outcome))
            case RetriableError():
                found.again.append(action)
                found.error = found.error or outcome
            case _:
                raise outcome
    return found


def _outcome(action: Action, result: Mapping[str, Any], where: str) -> Outcome | ConnectorError:
    status = int(result.get("status", 500))
    error = result.get("error")
    if 200 <= status < 300:
        return Outcome.WRITTEN
    if not isinstance(error, Mapping):
        # a document that is to be deleted and is not there
        if status == 404 and action.kind is ActionKind.DELETE:
            return Outcome.STALE
        error = {"type": "error", "reason": str(error or f"status {status} without a reason")}
    conflict = error.get("type") == "version_conflict_engine_exception"
    if status == 409 and conflict and action.kind is not ActionKind.UPDATE:
        return Outcome.STALE
    return item_error(where, status, error)
