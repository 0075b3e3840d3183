"""The keys of the config service, and a connector's stored form.

`connector/<name>` is a connector. `plan/<generation>/index` tells how many chunks hold the plans
of a generation, `plan/<generation>/chunk/<number>` is one. An index and its chunks are written at
once, so they have one revision: the epoch of the plans.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Final

from penstock.model.connector import Connector, ConnectorKind, TargetState
from penstock.store import Entry

CONNECTORS: Final = "connector/"


@dataclass(frozen=True, slots=True)
class Stored:
    """A connector with the time of its last write, in seconds since the epoch."""

    connector: Connector
    updated_at: float = 0.0

    def at(self, revision: int) -> Stored:
        """Return it as it is stored at a revision."""
        return replace(self, connector=replace(self.connector, revision=revision))


def connector_key(name: str) -> str:
    """Return the key of a connector."""
    return CONNECTORS + name


def name_of(key: str) -> str:
    """Return the name of a connector from its key."""
    return key.removeprefix(CONNECTORS)


def plans_prefix(generation: str) -> str:
    """Return the prefix of all that belongs to the plans of a generation."""
    return f"plan/{generation}/"


def index_key(generation: str) -> str:
    """Return the key of the index of a generation's plans."""
    return f"plan/{generation}/index"


def chunk_key(generation: str, number: int) -> str:
    """Return the key of a chunk of a generation's plans; keys are in order of number."""
    return f"plan/{generation}/chunk/{number:06d}"


def encode(stored: Stored) -> bytes:
    """Return the stored form; the revision is the store's own."""
    connector = stored.connector
    document = {
        "name": connector.name,
        "kind": connector.kind.name,
        "config": dict(connector.config),
        "target_state": connector.target_state.name,
        "generation": connector.generation,
        "updated_at": stored.updated_at,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def decode(entry: Entry) -> Stored:
    """Return the connector of an entry."""
    document = json.loads(entry.value)
    connector = Connector(
        name=document["name"],
        config=document["config"],
        kind=ConnectorKind[document["kind"]],
        target_state=TargetState[document["target_state"]],
        generation=document["generation"],
        revision=entry.revision,
    )
    return Stored(connector, document["updated_at"])
