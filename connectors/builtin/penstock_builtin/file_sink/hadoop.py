"""Files of HDFS: staged in a hidden folder, and renamed by the commit. Nothing is overwritten.

A file is whole when it gets its name. A rename is one step of the name node, so a commit may come
twice, and from any machine: what is staged no more, and is there under its name, is done.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from penstock_builtin.file_sink.config import FileSinkConfig
from penstock_builtin.file_sink.file_names import file_begin, target_name
from penstock_builtin.file_sink.sheet import Part
from penstock_builtin.file_sink.spill import INLINE_MOST
from penstock_builtin.file_sink.staging import FileStaging, Layout
from penstock_builtin.places.hdfs_keys import HdfsUrl
from penstock_builtin.places.hdfs_session import HdfsSession
from penstock_connector import ConnectorError, RetriableError

_BUFFER: Final = 1 << 20
"""Bytes that go to the data nodes at once."""


def check_cluster(config: FileSinkConfig) -> None:
    """Make a file and remove it: so wrong addresses and rights come early."""
    url = HdfsUrl.parse(config.path)
    session = HdfsSession(config, url)
    client = session.client
    folder = _fixed(target_name(url.path, "check", "check-0"))
    name = f"{folder}/.penstock/check-{secrets.token_hex(4)}"
    try:
        session.ask(lambda: client.mkdirs(f"{folder}/.penstock", create_parent=True), folder)
        writer = session.once(lambda: client.create(name), name)
        session.once(writer.close, name)
        session.ask(lambda: client.delete(name), name)
    finally:
        session.close()


class HdfsSheet:
    """A file in the hidden folder."""

    def __init__(self, session: HdfsSession, name: str, final: str, *, fsync: bool) -> None:
        self._session, self._name, self._final, self._fsync = session, name, final, fsync
        self._writer = session.once(lambda: session.client.create(name), name)
        self._held = bytearray()
        self.size = 0

    def write(self, buffers: Sequence[Any]) -> None:
        """Write buffers one after the other."""
        for buffer in buffers:
            self._held += memoryview(buffer).cast("B")
            self.size += len(buffer)
            if len(self._held) >= _BUFFER:
                self._send()

    def end(self, rows: int, head: bytes, sub: str) -> Part:
        """Complete the file: its blocks are on the data nodes, with `fsync` on their disks."""
        self._send()
        if self._fsync and self.size:
            self._session.once(self._writer.hsync, self._name)
        self._session.once(self._writer.close, self._name)
        return Part(self._name, self.size, rows, head, sub, self._final)

    def drop(self) -> None:
        """Remove it."""
        self._held.clear()
        with contextlib.suppress(ConnectorError):
            self._session.once(self._writer.close, self._name)
        _remove(self._session, self._name)

    def _send(self) -> None:
        if self._held:
            data = bytes(self._held)
            self._held.clear()
            self._session.once(lambda: self._writer.write(data), self._name)


class _HdfsSheets:
    def __init__(
        self, target: HdfsTarget, folder: str, begin: str, unique: str, *, fsync: bool
    ) -> None:
        self._target, self._folder = target, folder
        self._begin, self._unique, self._fsync = begin, unique, fsync

    def new(self, sub: str, number: int) -> HdfsSheet:
        """Begin a file; its name in a folder of the target is known already."""
        path = f"{self._folder}{sub}/" if sub else self._folder
        final = f"{path}{self._begin}-{number:04d}.{self._target.config.ending}"
        staged = f"{self._target.hidden}/{self._unique}-{number:04d}.part"
        return HdfsSheet(self._target.session, staged, final, fsync=self._fsync)

    def remove(self, part: Part) -> None:
        """Remove a file that was ended."""
        _remove(self._target.session, part.name)


class HdfsTarget:
    """The files that a task writes.

    Attributes:
        config: The keys.
        session: Calls to the cluster.
        hidden: The folder where rows are staged; nobody reads it.
    """

    def __init__(self, config: FileSinkConfig, task_id: str, epoch: int) -> None:
        """Take note of whose rows these are. Older epochs are fenced by the offsets that they can
        no longer store: what they stage is renamed by nobody.
        """
        self.config = config
        self._url = HdfsUrl.parse(config.path)
        self._task_id, self._epoch = task_id, epoch
        self._token = secrets.token_hex(4)
        self.hidden = f"{_fixed(self._url.path)}/.penstock/{quote(task_id, safe='')}"
        self.session = HdfsSession(config, self._url)
        try:
            self._make(self.hidden)
        except BaseException:
            self.session.close()
            raise

    def look(self, dataset: str, layout: Layout) -> None:
        """Every file begins anew: any rows can go there."""

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, layout: Layout
    ) -> FileStaging:
        """Return an attempt at a slot. Sorted as text, names are in the order of the rows."""
        begin = file_begin(self.config, dataset, self._task_id, txn_id)
        own = f"{slot:04d}-{attempt}-{self._epoch}-{self._token}-{secrets.token_hex(3)}"
        unique = f"{self._epoch}-{self._token}-{txn_id}-{slot}-{attempt}-{secrets.token_hex(3)}"
        folder = self._folder(dataset)
        sheets = _HdfsSheets(self, folder, f"{begin}-{own}", unique, fsync=self.config.fsync)
        return FileStaging(self._url.at(folder), slot, layout, sheets, appends=False)

    def prepare(self, txn_id: int, staged: Sequence[FileStaging]) -> bytes:
        """Name the files that count. They are complete since they were closed."""
        moves = [[part.name, part.upload] for staging in staged for part in staging.parts]
        state = json.dumps({"version": 1, "moves": moves}, separators=(",", ":")).encode()
        if len(state) <= INLINE_MOST:
            return state
        name = f"{self.hidden}/{self._epoch}-{self._token}-{txn_id}.state"
        sheet = HdfsSheet(self.session, name, "", fsync=self.config.fsync)
        sheet.write([state])
        sheet.end(0, b"", "")
        return json.dumps({"version": 1, "spilled": name}).encode()

    def commit(self, txn_id: int, state: bytes) -> None:
        """Give files their names, those that have them not yet."""
        spilled = json.loads(state).get("spilled")
        if spilled:
            kept = self._read(spilled)
            if kept is None:
                return  # it is removed last of all, so the files have their names
            state = kept
        made: set[str] = set()
        for staged, final in json.loads(state)["moves"]:
            folder = final.rpartition("/")[0] or "/"
            if folder not in made:
                self._make(folder)
                made.add(folder)
            self._move(staged, final)
        if spilled:
            _remove(self.session, spilled)

    def sweep(self) -> None:
        """Remove what earlier lives of the task staged. What newer epochs did is not ours."""
        mine = re.compile(r"(\d+)-([0-9a-f]{8})-.*\.(part|state)")
        for status in self.session.ask(self._staged, self.hidden):
            match = mine.fullmatch(status.path.rpartition("/")[2])
            if match and int(match[1]) <= self._epoch and match[2] != self._token:
                _remove(self.session, status.path)

    def close(self) -> None:
        """Close the connections."""
        self.session.close()

    def _staged(self) -> list[Any]:
        return list(self.session.client.list_status(self.hidden))

    def _move(self, staged: str, final: str) -> None:
        client = self.session.client
        try:
            self.session.ask(lambda: client.rename(staged, final), self._url.at(final))
        except FileNotFoundError as error:
            if not self._is_there(final):
                raise ConnectorError(
                    "hdfs.staged_lost",
                    f"{self._url.at(final)}: its rows were staged as {staged}, which is gone",
                    fix="Let nothing else remove files of `.penstock`; to go on without these "
                    "rows, alter the offsets.",
                ) from error
        except FileExistsError as error:
            raise RetriableError(
                "hdfs.name_taken",
                f"{self._url.at(final)} is there already, and is not ours",
                fix="Move it away: nothing is overwritten. It is tried again.",
            ) from error

    def _is_there(self, path: str) -> bool:
        try:
            self.session.ask(lambda: self.session.client.get_file_info(path), path)
        except FileNotFoundError:
            return False
        return True

    def _read(self, path: str) -> bytes | None:
        try:
            reader = self.session.ask(lambda: self.session.client.read(path), path)
            size = len(reader)
            found: bytes = self.session.ask(lambda: reader.read_range(0, size), path)
        except FileNotFoundError:
            return None
        return found

    def _make(self, folder: str) -> None:
        self.session.ask(
            lambda: self.session.client.mkdirs(folder, create_parent=True), self._url.at(folder)
        )

    def _folder(self, dataset: str) -> str:
        filled = target_name(self._url.path, dataset, self._task_id).rstrip("/")
        return f"{filled}/"


def _remove(session: HdfsSession, path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        session.ask(lambda: session.client.delete(path), path)


def _fixed(template: str) -> str:
    """Return the folder that is the same for all datasets; empty for the root."""
    fixed, variable, _ = template.partition("${")
    return fixed.rpartition("/")[0] if variable else fixed.rstrip("/")
