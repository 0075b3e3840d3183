"""The keys of the config service, and their stored forms.

| key | value |
|---|---|
| `connector/<name>` | a connector: configuration, target state, restart requests |
| `generation/<generation>` | the name of the connector that has this generation |
| `revision/<generation>/<version>` | a version of its configuration |
| `topic/<generation>/<topic>` | empty: the connector has rows of the topic |
| `gone/<generation>` | a deleted connector, until all that belongs to it is deleted |
| `kept/<name>` | a deleted connector whose offsets the next one of this name takes up |
| `kept-connector/<generation>` | that connector, as it was stored |
| `loglevel/<service>/<logger>` | a log level |

Everything that belongs to a connector is keyed by its generation (invariant 10). Its name is a key
only where names must be unique.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from penstock.model.connector import (
    Connector,
    ConnectorKind,
    KeptOffsets,
    RestartRequest,
    Revision,
    RevisionCause,
    TargetState,
)
from penstock.store.port import Entry

CONNECTOR_PREFIX: Final = "connector/"
DELETED_PREFIX: Final = "gone/"
KEPT_PREFIX: Final = "kept/"
LOG_LEVEL_PREFIX: Final = "loglevel/"

KEY_PREFIXES: Final = (
    CONNECTOR_PREFIX,
    DELETED_PREFIX,
    KEPT_PREFIX,
    LOG_LEVEL_PREFIX,
    "generation/",
    "kept-connector/",
    "revision/",
    "topic/",
)
"""Every key of the service starts with one of these."""


@dataclass(frozen=True, slots=True)
class StoredConnector:
    """A connector with the time of its last change, in seconds since the Unix epoch.

    `entry_revision` is the revision of its key, which a write checks. It is newer than the revision
    of the connector when only restart requests came since: these do not conflict with a user who
    changes a configuration that he read before.
    """

    connector: Connector
    updated_at: float = 0.0
    entry_revision: int = 0

    def at_revision(self, revision: int) -> StoredConnector:
        """Return the connector as stored by a write that changed it."""
        connector = replace(self.connector, revision=revision)
        return replace(self, connector=connector, entry_revision=revision)


def connector_key(name: str) -> str:
    """Return the key of a connector."""
    return CONNECTOR_PREFIX + name


def connector_name(key: str) -> str:
    """Return the name of a connector from its key."""
    return key.removeprefix(CONNECTOR_PREFIX)


def generation_key(generation: str) -> str:
    """Return the key of the name that has a generation."""
    return f"generation/{generation}"


def revision_prefix(generation: str) -> str:
    """Return the prefix of the versions of a generation."""
    return f"revision/{generation}/"


def revision_key(generation: str, version: int) -> str:
    """Return the key of a version. Keys are ordered by version."""
    return f"{revision_prefix(generation)}{version:012d}"


def topic_prefix(generation: str) -> str:
    """Return the prefix of the topics of a generation."""
    return f"topic/{generation}/"


def topic_key(generation: str, topic: str) -> str:
    """Return the key that exists when a generation has rows of a topic."""
    return topic_prefix(generation) + topic


def deleted_key(generation: str) -> str:
    """Return the key of a deleted connector."""
    return DELETED_PREFIX + generation


def kept_key(name: str) -> str:
    """Return the key of the kept offsets of a name."""
    return KEPT_PREFIX + name


def kept_connector_key(generation: str) -> str:
    """Return the key of a deleted connector whose offsets are kept."""
    return f"kept-connector/{generation}"


def log_level_key(service: str, logger: str) -> str:
    """Return the key of a log level."""
    return f"{LOG_LEVEL_PREFIX}{service}/{logger}"


def encode_connector(stored: StoredConnector, *, keep_revision: bool = False) -> bytes:
    """Return the stored form of a connector.

    Its revision is that of the entry. `keep_revision` stores the present one instead.
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
    if keep_revision:
        document["revision"] = connector.revision
    return _to_json(document)


def decode_connector(entry: Entry) -> StoredConnector:
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
        restarts=tuple(RestartRequest(**restart) for restart in document.get("restarts", ())),
        secret_keys=tuple(document.get("secret_keys", ())),
    )
    return StoredConnector(connector, document["updated_at"], entry.revision)


def encode_kept(kept: KeptOffsets) -> bytes:
    """Return the stored form of kept offsets. The name is that of the key."""
    document = {
        "kind": kept.kind.name,
        "generation": kept.generation,
        "connector_class": kept.connector_class,
        "kept_at": kept.kept_at,
    }
    return _to_json(document)


def decode_kept(entry: Entry) -> KeptOffsets:
    """Return the kept offsets of an entry."""
    document = json.loads(entry.value)
    return KeptOffsets(
        entry.key.removeprefix(KEPT_PREFIX),
        ConnectorKind[document["kind"]],
        document["generation"],
        document["connector_class"],
        document["kept_at"],
    )


def encode_revision(revision: Revision) -> bytes:
    """Return the stored form of a version. Its revision is that of the entry."""
    document = {
        "written_at": revision.written_at,
        "cause": revision.cause.name,
        "restored": revision.restored,
        "kind": revision.kind.name,
        "config": dict(revision.config),
    }
    return _to_json(document)


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


def _to_json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
