"""What a prepared transaction is, as the offset service keeps it: bytes, at most 64 KiB.

Usually the names of its files as JSON. When they are too many, they go to a manifest, a file beside
the topics that the state names. It is removed when a later transaction is committed: until then the
offset service may ask for this one again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from penstock.model.errors import InternalError
from penstock.topic.embedded.table import StagedFile
from penstock.topic_files.disk import sync_folder

MOST_STATE: Final = 48 << 10
"""Bytes of a state that needs no manifest. The limit is 64 KiB; the rest is for what comes."""

_MANIFEST: Final = "manifest"
FOLDER: Final = ".prepared"
"""Folder of manifests, beside the topics."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Files of a transaction by topic, in order. `manifest`: the file that names them, if any."""

    files: Mapping[str, Sequence[StagedFile]]
    manifest: Path | None = None

    @property
    def rows(self) -> int:
        """Rows in all files."""
        return sum(file.rows for files in self.files.values() for file in files)


def written_state(topics_dir: Path, name: str, prepared: Prepared) -> bytes:
    """Return the state of a transaction; a manifest is durable when this returns."""
    fields = {
        topic: [[file.path, file.partition, file.rows, file.bytes] for file in files]
        for topic, files in prepared.files.items()
    }
    state = json.dumps({"topics": fields}, separators=(",", ":")).encode()
    if len(state) <= MOST_STATE:
        return state
    folder = topics_dir / FOLDER
    folder.mkdir(exist_ok=True)
    manifest = folder / f"{quote(name, safe='')[-200:]}.json"
    temporary = manifest.with_suffix(".new")
    with temporary.open("wb") as file:
        file.write(state)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(manifest)
    sync_folder(folder)
    sync_folder(topics_dir)
    return json.dumps({_MANIFEST: manifest.name}).encode()


def read_state(topics_dir: Path, state: bytes) -> Prepared:
    """Return the transaction of a state.

    Raises:
        InternalError: `topic.prepared_lost`: its manifest is gone.
    """
    fields: dict[str, Any] = json.loads(state or b"{}")
    manifest = None
    if _MANIFEST in fields:
        manifest = topics_dir / FOLDER / Path(fields[_MANIFEST]).name
        try:
            fields = json.loads(manifest.read_bytes())
        except FileNotFoundError as error:
            raise InternalError(
                "topic.prepared_lost",
                f"{manifest} is gone, which names the files of a prepared transaction",
                fix="Somebody removed it. Reset the offsets of the connector to before it.",
            ) from error
    topics = fields.get("topics", {})
    return Prepared(
        {topic: [StagedFile(*f) for f in files] for topic, files in topics.items()}, manifest
    )


def dropped(prepared: Prepared) -> None:
    """Remove what only an unfinished transaction needs."""
    if prepared.manifest is not None:
        with suppress(FileNotFoundError):
            prepared.manifest.unlink()
