"""One topic: its table is made, evolved, read on and committed to, exactly once.

Offsets are known only at commit, and must follow each other without a gap. So a commit is computed
from the newest version and takes effect only as the very next one; when another writer was faster,
it is computed anew. There is one such loop, `commit`; appends, new columns, compaction and
retention are what they put into it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa

from penstock.model import faults
from penstock.model.errors import (
    ConfigError,
    FencedError,
    InternalError,
    RetriableError,
    SchemaError,
)
from penstock.topic.embedded import log
from penstock.topic.embedded.log import FOLDER, put_version, read_on
from penstock.topic.embedded.table_state import Action, TopicFile, TopicSpec, TopicState
from penstock.topic_files import Folder, joined_type, stored_schema
from penstock.topic_files.types import refuse_names


def evolved(
    state: TopicState, rows: pa.Schema, spec: TopicSpec, topic: str, now_ms: int
) -> Sequence[Action] | None:
    """Return the lines that let a topic have these rows; None when it can already."""
    columns = joined_columns(state.columns, rows, topic)
    described = TopicSpec(
        state.spec.partitions,
        spec.key_columns or state.spec.key_columns,
        spec.retention if spec.retention is not None else state.spec.retention,
    )
    if columns.equals(state.columns) and described == state.spec:
        return None
    return [
        log.info(now_ms, "CHANGE TOPIC", {}),
        *log.protocol_for(columns, state.protocol),
        log.described(state.metadata, columns, described),
    ]


def joined_columns(table: pa.Schema, rows: pa.Schema, topic: str) -> pa.Schema:
    """Return a topic's columns with those that it lacks for these rows at the end.

    Raises:
        SchemaError: `topic.schema_incompatible`, `topic.column_name`.
    """
    refuse_names([*table.names, *(n for n in rows.names if n not in set(table.names))], topic)
    columns = {field.name: field for field in table}
    for field in rows:
        has = columns.setdefault(field.name, field)
        joined = joined_type(has.type, field.type)
        if joined is None:
            raise SchemaError(
                "topic.schema_incompatible",
                f"column `{field.name}` of topic {topic} is {has.type}, rows have {field.type}",
                fix="Cast the column with a transform, or route the rows to another topic.",
                dataset=topic,
            )
        columns[field.name] = has.with_type(joined)
    return pa.schema(columns.values())


_T = TypeVar("_T")

EPOCH_SUFFIX: Final = "#epoch"
"""Second application of a task: the newest epoch that committed (invariant 4)."""

COMMIT_LIMIT: Final = 30.0
"""Seconds that a commit tries to be the next version. A try takes milliseconds, and of all who try
one always succeeds, so this many writers or a broken disk are what a longer time would hide."""

FORGET: Final = 1800.0
"""Seconds after which what was read last is not gone on from: half of the time that cleaning leaves
old versions alone (`LOG_AGE`). Who slept longer might take a version that was cleaned away for one
that is not there yet, and put it again, where nobody looks. Shorter reads whole tables more often,
longer than `LOG_AGE` loses rows."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A durable file that no version names yet."""

    path: str
    partition: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Window:
    """What of a partition a reader sees: first offset, next offset, the first files it wants."""

    low: int
    end: int
    files: tuple[TopicFile, ...]


@dataclass(frozen=True, slots=True)
class View:
    """What of a topic a reader sees at one version. Windows by partition."""

    columns: pa.Schema
    key_columns: tuple[str, ...]
    windows: Mapping[int, Window]


class TopicTable:
    """A topic's table, shared by all who use it in this process. Methods block, and may be called
    from any thread.
    """

    def __init__(self, topic: str, folder: Folder) -> None:
        self.topic, self.folder, self.log = topic, folder, folder.at(FOLDER)
        self._state = TopicState()
        self._looked = 0.0
        self._guard = threading.Lock()  # the state; held for moments
        self._refreshing = threading.Lock()  # reading on; taken before the guard
        self._committing = threading.Lock()  # spares this process' writers from racing each other

    def refresh(self) -> bool:
        """Read on; True when there was something.

        Raises:
            ConfigError: `topic.foreign_rows`, `topic.foreign_path`, `topic.table_feature`.
            InternalError: `topic.log_damaged`.
        """
        with _told(self.topic), self._refreshing:
            looked = _now()
            known = -1 if looked - self._looked > FORGET else self._state.version
            news = read_on(self.log, known)
            state = TopicState() if news.anew else self._state
            changed = bool(news.versions) or (news.anew and self._state.version >= 0)
            with self._guard:
                for version, found in news.versions:
                    state.apply(version, found)
                self._state, self._looked = state, looked
                self._refuse_features()
        return changed

    def exists(self) -> bool:
        """Tell whether the topic was made."""
        self.refresh()
        return self._state.version >= 0

    @property
    def version(self) -> int:
        """The newest version that was read; -1: there is no topic."""
        return self._state.version

    @property
    def spec(self) -> TopicSpec:
        """What the topic was made with."""
        return self._state.spec

    @property
    def columns(self) -> pa.Schema:
        """Columns of the topic's rows."""
        return self._state.columns

    def inspect(self, look: Callable[[TopicState], _T]) -> _T:
        """Return what `look` makes of the state, which it must not keep."""
        with self._guard:
            return look(self._state)

    def view(self, wanted: Mapping[int, int], most: int) -> View | None:
        """Return what a reader sees that wants partitions from offsets on, at most so many files of
        each; None when there is no topic.
        """

        def window(state: TopicState, partition: int, offset: int) -> Window:
            files = state.from_offset(partition, offset, most)
            return Window(state.low_offset(partition), state.next_offset(partition), tuple(files))

        def look(state: TopicState) -> View | None:
            if state.version < 0:
                return None
            windows = {p: window(state, p, offset) for p, offset in wanted.items()}
            return View(state.columns, state.spec.key_columns, windows)

        return self.inspect(look)

    def ensure(self, schema: pa.Schema, spec: TopicSpec) -> None:
        """Make the topic, or add the columns it lacks. How many partitions it has never changes.

        Raises:
            SchemaError: `topic.schema_incompatible`, `topic.type_unsupported`, `topic.column_name`.
            RetriableError: `topic.io_failed`, `topic.commit_contended`.
        """
        columns = stored_schema(schema, self.topic)

        def ensured(state: TopicState) -> Sequence[Action] | None:
            if state.version < 0:
                return log.created(self.topic, columns, spec, _now_ms())
            return evolved(state, columns, spec, self.topic, _now_ms())

        with _told(self.topic):
            self.log.make()
            self.commit("topic.ensure", ensured)

    def append(self, task_id: str, epoch: int, txn_id: int, files: Sequence[StagedFile]) -> int:
        """Add a transaction's files, unless they are there already; returns the version.

        Raises:
            FencedError: `topic.stale_epoch` (invariant 4).
            InternalError: `topic.prepared_lost`.
            RetriableError: `topic.io_failed`, `topic.commit_contended`.
        """

        def appended(state: TopicState) -> Sequence[Action] | None:
            newest = state.transactions.get(task_id + EPOCH_SUFFIX, 0)
            if epoch < newest:
                raise FencedError(
                    "topic.stale_epoch",
                    f"task {task_id} is at epoch {newest} in topic {self.topic}, {epoch} is older",
                    fix="A newer task writes there: this one ends by itself.",
                )
            if is_done(state, task_id, txn_id):
                return None
            now = _now_ms()
            return [
                log.info(now, "WRITE", {"task": task_id, "epoch": epoch, "txn": txn_id}),
                log.transaction(task_id, txn_id, now),
                log.transaction(task_id + EPOCH_SUFFIX, epoch, now),
                *adds(state, files, now),
            ]

        lost = self._lost(files)
        if lost:
            self.refresh()
            # the files of one that is done may have been compacted since
            if not self.inspect(lambda state: is_done(state, task_id, txn_id)):
                raise _prepared_lost(lost, txn_id, self.topic)
        faults.hit("topic.committing")
        version = self.commit("topic.append", appended)
        faults.hit("topic.committed")
        return version

    def commit(self, stage: str, compose: Callable[[TopicState], Sequence[Action] | None]) -> int:
        """Write what `compose` makes of the newest version as the next one; returns the version
        at which it is true. None: it is true already. `compose` may be called again.

        Raises:
            RetriableError: `topic.io_failed`, `topic.commit_contended`.
        """
        deadline = time.monotonic() + COMMIT_LIMIT
        with _told(self.topic), self._turn(stage):
            while time.monotonic() < deadline:
                self.refresh()
                with self._guard:
                    version, looked = self._state.version, self._looked
                    lines = compose(self._state)
                if lines is None:
                    # whoever wrote it may have died before it was durable
                    self.log.sync()
                    return version
                put = put_version(self.log, version + 1, lines)
                # a process that was stopped in between learns from the table what became of it
                if put and _now() - looked <= FORGET:
                    self._went_on(version, lines)
                    return version + 1
        raise _contended(stage, self.topic)

    def _went_on(self, version: int, lines: Sequence[Action]) -> None:
        """Take in what was put after a version, unless a reader was faster."""
        with self._refreshing, self._guard:
            if self._state.version == version:
                self._state.apply(version + 1, lines)

    @contextmanager
    def _turn(self, stage: str) -> Iterator[None]:
        if not self._committing.acquire(timeout=COMMIT_LIMIT):
            raise _contended(stage, self.topic)
        try:
            yield
        finally:
            self._committing.release()

    def _lost(self, files: Sequence[StagedFile]) -> str:
        """Return a file that is not there, or not whole: better no row than a broken table."""
        with _told(self.topic):
            sizes = self.folder.sizes(file.path for file in files)
        lost = (f.path for f, size in zip(files, sizes, strict=True) if size != f.bytes)
        return next(lost, "")

    def _refuse_features(self) -> None:
        unknown = self._state.unknown_features()
        if unknown:
            raise ConfigError(
                "topic.table_feature",
                f"the table of topic {self.topic} wants {', '.join(unknown)}, which Penstock "
                "does not know",
                fix="Drop the features with the tool that added them.",
            )


def is_done(state: TopicState, task_id: str, txn_id: int) -> bool:
    """Tell whether a transaction is in the table: it is never added again."""
    done = state.transactions.get(task_id, 0) >= txn_id
    return done and not faults.hit("topic.repeat_check")


def adds(state: TopicState, files: Sequence[StagedFile], now_ms: int) -> list[Action]:
    """Return the lines that add files, each with the offset of its first row."""
    bases: dict[int, int] = {}
    lines = []
    for file in files:
        base = bases.get(file.partition, state.next_offset(file.partition))
        bases[file.partition] = base + file.rows
        added = TopicFile(base, file.rows, file.path, file.bytes, now_ms)
        lines.append(log.add(file.partition, added, new_rows=True))
    return lines


def _prepared_lost(path: str, txn_id: int, topic: str) -> InternalError:
    return InternalError(
        "topic.prepared_lost",
        f"file {path} of transaction {txn_id} is gone or cut from topic {topic}",
        fix="Somebody removed prepared files. Reset the offsets of the connector to before them.",
    )


def _contended(stage: str, topic: str) -> RetriableError:
    return RetriableError(
        "topic.commit_contended",
        f"stage {stage} of topic {topic} was not the next version for {COMMIT_LIMIT:.0f} s",
        fix="Too many writers; give the topic fewer tasks.",
    )


def _now() -> float:
    # goes on while the process, or the machine, is stopped
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def _told(topic: str) -> Iterator[None]:
    """Translate what the file system or the store says."""
    try:
        yield
    except OSError as error:
        raise RetriableError(
            "topic.io_failed",
            f"topic {topic}: {error}",
            fix="Check space and permissions of where topics are kept (`topics.dir`).",
        ) from error
