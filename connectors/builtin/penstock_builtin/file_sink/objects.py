"""Objects of an S3-compatible store: parts of a multipart upload are staged rows, and its end is
the commit.

An upload that is not ended is seen by nobody, stays in the store, and is ended from anywhere by its
id. To end it twice does no harm: then the object is there, under a key that no other life of any
task uses.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from penstock_builtin.file_sink.config import FileSinkConfig
from penstock_builtin.file_sink.file_names import file_begin, target_name
from penstock_builtin.file_sink.sheet import Part
from penstock_builtin.file_sink.spill import INLINE_MOST
from penstock_builtin.file_sink.staging import FileStaging, Layout
from penstock_builtin.places.s3 import open_store
from penstock_builtin.places.s3_keys import S3Url
from penstock_connector import ConnectorError

if TYPE_CHECKING:
    from penstock_builtin.places.s3_store import S3Store

PART: Final = 5 << 20
"""Bytes of a part, the fewest that a store takes of all but the last. More is memory for every file
that is open."""

_PARTS_MOST: Final = 9_000
"""Parts of an object; stores take ten thousand. Then another object begins."""


def check_bucket(config: FileSinkConfig) -> None:
    """Begin an upload and forget it: so wrong keys and names come early."""
    url = S3Url.parse(config.path)
    store = open_store(url, config.access(config.path))
    key = f"{target_name(url.prefix, 'check', 'check-0').rstrip('/')}/.penstock/check".lstrip("/")
    try:
        store.abort(key, store.begin(key))
    finally:
        store.close()


class ObjectSheet:
    """An object that is being uploaded."""

    def __init__(self, store: S3Store, key: str) -> None:
        self._store, self._key = store, key
        self._upload = ""
        self._tags: list[str] = []
        self._held = bytearray()
        self.size = 0

    def write(self, buffers: Sequence[Any]) -> None:
        """Send what makes up whole parts."""
        for buffer in buffers:
            self._held += memoryview(buffer).cast("B")
            self.size += len(buffer)
            while len(self._held) >= PART:
                self._send(PART)

    def end(self, rows: int, head: bytes, sub: str) -> Part:
        """Send the rest. What was answered is durable."""
        if self._held or not self._tags:
            self._send(len(self._held))
        return Part(self._key, self.size, rows, head, sub, self._upload, tuple(self._tags))

    def drop(self) -> None:
        """Forget the upload."""
        self._held.clear()
        if self._upload:
            self._store.abort(self._key, self._upload)

    def _send(self, size: int) -> None:
        if not self._upload:
            self._upload = self._store.begin(self._key)
        data = bytes(memoryview(self._held)[:size])
        del self._held[:size]
        number = len(self._tags) + 1
        self._tags.append(self._store.put_part(self._key, self._upload, number, data))
        if number >= _PARTS_MOST:
            raise ConnectorError(
                "s3.too_many_parts",
                f"{self._key} would have more parts than a store takes",
                fix="Set `rotate.bytes`.",
                config_path="rotate.bytes",
            )


class _ObjectSheets:
    def __init__(self, store: S3Store, folder: str, begin: str, ending: str) -> None:
        self._store, self._folder = store, folder
        self._begin, self._ending = begin, ending

    def new(self, sub: str, number: int) -> ObjectSheet:
        """Begin an object in a folder of the prefix."""
        path = f"{self._folder}{sub}/" if sub else self._folder
        return ObjectSheet(self._store, f"{path}{self._begin}-{number:04d}{self._ending}")

    def remove(self, part: Part) -> None:
        """Forget an upload that was ended."""
        self._store.abort(part.name, part.upload)


class ObjectTarget:
    """The objects that a task writes."""

    def __init__(self, config: FileSinkConfig, task_id: str, epoch: int) -> None:
        """Take note of whose rows these are. Older epochs are fenced by the offsets that they can
        no longer store: what they upload is ended by nobody.
        """
        url = S3Url.parse(config.path)
        self._config, self._template = config, url.prefix
        self._task_id, self._epoch = task_id, epoch
        self._task, self._token = quote(task_id, safe=""), secrets.token_hex(4)
        self._store = open_store(url, config.access(config.path))
        self._url = url
        self._mine = re.compile(
            rf"(?:part-|.*\+){re.escape(self._task)}[-+]\d+-\d{{4}}-\d+-(\d+)-([0-9a-f]{{8}})-.*"
        )

    def look(self, dataset: str, layout: Layout) -> None:
        """Every object begins anew: any rows can go there."""

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, layout: Layout
    ) -> FileStaging:
        """Return an attempt at a slot. Sorted as text, keys are in the order of the rows."""
        begin = file_begin(self._config, dataset, self._task_id, txn_id)
        begin += f"-{slot:04d}-{attempt}-{self._epoch}-{self._token}-{secrets.token_hex(3)}"
        folder = self._folder(dataset)
        sheets = _ObjectSheets(self._store, folder, begin, f".{self._config.ending}")
        return FileStaging(self._url.at(folder), slot, layout, sheets, appends=False)

    def prepare(self, txn_id: int, staged: Sequence[FileStaging]) -> bytes:
        """Name the uploads that count. Their parts are durable since they were answered."""
        parts = [part for staging in staged for part in staging.parts]
        state = _encoded(parts)
        if len(state) <= INLINE_MOST:
            return state
        key = f"{self._hidden()}{self._epoch}-{self._token}-{txn_id}.state"
        self._store.put(key, state)
        return json.dumps({"version": 1, "spilled": key}).encode()

    def commit(self, txn_id: int, state: bytes) -> None:
        """End the uploads, those that are not yet."""
        spilled = json.loads(state).get("spilled")
        if spilled:
            kept = self._store.read(spilled)
            if kept is None:
                return  # it is removed last of all, so the uploads are ended
            state = kept
        uploads = json.loads(state)["uploads"]
        for key, upload, tags in uploads:
            self._end(key, upload, tags)
        if spilled:
            self._store.delete(spilled)

    def sweep(self) -> None:
        """Forget the uploads of earlier lives of the task. Those of newer epochs are not ours."""
        fixed = self._template.partition("${")[0]
        for found in list(self._store.unfinished(fixed)):
            match = self._mine.fullmatch(found.key.rpartition("/")[2])
            if match and int(match[1]) <= self._epoch and match[2] != self._token:
                self._store.abort(found.key, found.upload)
        for stored in list(self._store.listed(self._hidden())):
            epoch, token, _ = stored.key.removeprefix(self._hidden()).split("-", 2)
            if int(epoch) <= self._epoch and token != self._token:
                self._store.delete(stored.key)

    def close(self) -> None:
        """Close the connections."""
        self._store.close()

    def _end(self, key: str, upload: str, tags: Sequence[str]) -> None:
        if self._store.complete(key, upload, tags) or self._store.head(key) is not None:
            return
        raise ConnectorError(
            "s3.upload_lost",
            f"{self._url.at(key)}: its upload was prepared, and the store has it no more",
            fix="Let the bucket keep unfinished uploads for longer than a task may be down; to go "
            "on without these rows, alter the offsets.",
        )

    def _folder(self, dataset: str) -> str:
        filled = target_name(self._template, dataset, self._task_id).strip("/")
        return f"{filled}/" if filled else ""

    def _hidden(self) -> str:
        """Return where states are kept that are too large for the host."""
        fixed = self._template.partition("${")[0].rpartition("/")[0].strip("/")
        return f"{fixed}/.penstock/{self._task}/".lstrip("/")


def _encoded(parts: Sequence[Part]) -> bytes:
    uploads = [[part.name, part.upload, list(part.tags)] for part in parts]
    return json.dumps({"version": 1, "uploads": uploads}, separators=(",", ":")).encode()
