"""What a prepared transaction is, as the offset service keeps it: bytes, at most 64 KiB.

Usually the names of its files as JSON. When they are too many, they go to a manifest, a file beside
the topics that the state names. It is removed when a later transaction is committed: until then the
offset service may ask for this one again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from penstock.model.errors import InternalError
from penstock.topic.embedded.table import StagedFile
from penstock.topic_files import Folder

MOST_STATE: Final = 48 << 10
"""Bytes of a state that needs no manifest. The limit is 64 KiB; the rest is for what comes."""

_MANIFEST: Final = "manifest"
FOLDER: Final = ".prepared"
"""Folder of manifests, beside the topics."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Files of a transaction by topic, in order. `manifest`: the file in `FOLDER` that names them,
    if any.
    """

    files: Mapping[str, Sequence[StagedFile]]
    manifest: str = ""

    @property
    def rows(self) -> int:
        """Rows in all files."""
        return sum(file.rows for files in self.files.values() for file in files)


def written_state(topics: Folder, name: str, prepared: Prepared) -> bytes:
    """Return the state of a transaction; a manifest is durable when this returns."""
    fields = {
        topic: [[file.path, file.partition, file.rows, file.bytes] for file in files]
        for topic, files in prepared.files.items()
    }
    state = json.dumps({"topics": fields}, separators=(",", ":")).encode()
    if len(state) <= MOST_STATE:
        return state
    folder = topics.at(FOLDER)
    folder.make()
    # a transaction that is prepared again has a manifest of its own
    manifest = f"{quote(name, safe='')[-180:]}-{uuid.uuid4().hex[:8]}.json"
    folder.put_new(manifest, state)
    return json.dumps({_MANIFEST: manifest}).encode()


def read_state(topics: Folder, state: bytes) -> Prepared:
    """Return the transaction of a state.

    Raises:
        InternalError: `topic.prepared_lost`: its manifest is gone.
    """
    fields: dict[str, Any] = json.loads(state or b"{}")
    manifest = ""
    if _MANIFEST in fields:
        manifest = str(fields[_MANIFEST]).rpartition("/")[2]
        try:
            fields = json.loads(topics.at(FOLDER).read(manifest))
        except FileNotFoundError as error:
            raise InternalError(
                "topic.prepared_lost",
                f"{topics.url}/{FOLDER}/{manifest} is gone, which names the files of a prepared "
                "transaction",
                fix="Somebody removed it. Reset the offsets of the connector to before it.",
            ) from error
    files = fields.get("topics", {})
    return Prepared({t: [StagedFile(*f) for f in files[t]] for t in files}, manifest)


def dropped(topics: Folder, prepared: Prepared) -> None:
    """Remove what only an unfinished transaction needs."""
    if prepared.manifest:
        topics.at(FOLDER).delete([prepared.manifest])
