"""The keys of the config service, and the stored forms.

| key | holds |
|---|---|
| `connector/<name>` | a connector: configuration, state, requests to restart |
| `generation/<generation>` | the name of the connector that is alive with it |
| `revision/<generation>/<version>` | a version of its configuration |
| `plan/<generation>/index` | which chunks hold its plans; its revision is their epoch |
| `plan/<generation>/<token>/<number>` | a chunk |
| `topic/<generation>/<topic>` | nothing: the connector has rows of the topic |
| `gone/<generation>` | a deleted connector, until its plans are swept and it is removed outside |
| `loglevel/<service>/<logger>` | a level that was set |

All that belongs to a connector is keyed by generation (invariant 10); its name is a key only where
the name is what must be unique.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from penstock.model.connector import (
    Connector,
    ConnectorKind,
    Restart,
    Revision,
    RevisionCause,
    TargetState,
)
from penstock.store import Entry

CONNECTORS: Final = "connector/"
GONE: Final = "gone/"
LOG_LEVELS: Final = "loglevel/"

PLACES: Final = (CONNECTORS, GONE, LOG_LEVELS, "generation/", "revision/", "plan/", "topic/")
"""What all keys of the service start with."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A connector with the time of its last write, in seconds since the epoch.

    `entry` is the revision of its key, which a write checks. It is newer than the connector's own
    revision when only requests to restart came since: those do not stand in the way of a person who
    changes what he has read.
    """

    connector: Connector
    updated_at: float = 0.0
    entry: int = 0

    def at(self, revision: int) -> Stored:
        """Return it as it is stored by a write that changed it."""
        return replace(self, connector=replace(self.connector, revision=revision), entry=revision)


def connector_key(name: str) -> str:
    """Return the key of a connector."""
    return CONNECTORS + name


def name_of(key: str) -> str:
    """Return the name of a connector from its key."""
    return key.removeprefix(CONNECTORS)


def generation_key(generation: str) -> str:
    """Return the key of a generation's name."""
    return f"generation/{generation}"


def revisions_prefix(generation: str) -> str:
    """Return the prefix of a generation's versions."""
    return f"revision/{generation}/"


def revision_key(generation: str, version: int) -> str:
    """Return the key of a version; keys are in order of version."""
    return f"{revisions_prefix(generation)}{version:012d}"


def plans_prefix(generation: str) -> str:
    """Return the prefix of all that belongs to the plans of a generation."""
    return f"plan/{generation}/"


def index_key(generation: str) -> str:
    """Return the key of the index of a generation's plans."""
    return f"{plans_prefix(generation)}index"


def chunk_key(generation: str, token: str, number: int) -> str:
    """Return the key of a chunk of a generation's plans; keys are in order of number."""
    return f"{plans_prefix(generation)}{token}/{number:06d}"


def topics_prefix(generation: str) -> str:
    """Return the prefix of the topics that a generation has rows of."""
    return f"topic/{generation}/"


def topic_key(generation: str, topic: str) -> str:
    """Return the key that says that a generation has rows of a topic."""
    return topics_prefix(generation) + topic


def gone_key(generation: str) -> str:
    """Return the key that tells that a generation is to be swept."""
    return GONE + generation


def log_level_key(service: str, logger: str) -> str:
    """Return the key of a level."""
    return f"{LOG_LEVELS}{service}/{logger}"


def encode(stored: Stored, *, pinned: bool = False) -> bytes:
    """Return the stored form. The revision is the store's own, unless it is pinned to the one that
    the connector has.
    """
    connector = stored.connector
    document: dict[str, Any] = {
        "name": connector.name,
        "kind": connector.kind.name,
        "config": dict(connector.config),
        "target_state": connector.target_state.name,
        "generation": connector.generation,
        "updated_at": stored.updated_at,
        "version": connector.version,
    }
    if connector.restarts:
        document["restarts"] = [asdict(restart) for restart in connector.restarts]
    if connector.secret_keys:
        document["secret_keys"] = list(connector.secret_keys)
    if pinned:
        document["revision"] = connector.revision
    return _bytes(document)


def decode(entry: Entry) -> Stored:
    """Return the connector of an entry."""
    document = json.loads(entry.value)
    connector = Connector(
        name=document["name"],
        config=document["config"],
        kind=ConnectorKind[document["kind"]],
        target_state=TargetState[document["target_state"]],
        generation=document["generation"],
        revision=document.get("revision", entry.revision),
        version=document.get("version", 0),  # 0: from before versions were counted
        restarts=tuple(Restart(**restart) for restart in document.get("restarts", ())),
        secret_keys=tuple(document.get("secret_keys", ())),
    )
    return Stored(connector, document["updated_at"], entry.revision)


def encode_revision(revision: Revision) -> bytes:
    """Return the stored form of a version; its revision is the store's own."""
    document = {
        "written_at": revision.written_at,
        "cause": revision.cause.name,
        "restored": revision.restored,
        "kind": revision.kind.name,
        "config": dict(revision.config),
    }
    return _bytes(document)


def decode_revision(entry: Entry) -> Revision:
    """Return the version of an entry."""
    document = json.loads(entry.value)
    return Revision(
        int(entry.key.rpartition("/")[2]),
        entry.revision,
        document["written_at"],
        RevisionCause[document["cause"]],
        document["restored"],
        ConnectorKind[document["kind"]],
        document["config"],
    )


def _bytes(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
