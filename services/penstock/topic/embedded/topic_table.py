"""One topic's table: creates it, adds columns, reads new versions, and commits exactly once.

Offsets are known only at commit, and must follow each other without a gap. So a commit is computed
from the newest version and takes effect only as the very next one. When another writer was faster,
it is computed again. `TopicTable.commit` is the only such loop; appends, new columns, compaction
and retention pass it the actions to write.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, ParamSpec, TypeVar

import pyarrow as pa

from penstock.model import faults
from penstock.model.errors import (
    ConfigError,
    FencedError,
    InternalError,
    RetriableError,
    SchemaError,
)
from penstock.topic.embedded import delta_log
from penstock.topic.embedded.delta_log import LOG_FOLDER, put_version, read_new_versions
from penstock.topic.embedded.table_state import Action, TopicFile, TopicSpec, TopicState
from penstock.topic_files.folder import Folder
from penstock.topic_files.stored_types import check_column_names, merge_types, to_stored_schema

_P = ParamSpec("_P")
_T = TypeVar("_T")

EPOCH_SUFFIX: Final = "#epoch"
"""Suffix of a task's second application: the newest epoch that committed (invariant 4)."""

COMMIT_TIMEOUT_S: Final = 30.0
"""Time for a commit to become the next version. An attempt takes milliseconds, and of all
concurrent ones one always succeeds. So a longer time would only hide too many writers, or a broken
disk."""

MAX_STATE_AGE_S: Final = 1800.0
"""Age after which a state is read anew from a checkpoint: half of the time that old versions are
kept (`MIN_LOG_AGE_S`). A process that slept longer might take a deleted version for one that does
not exist yet, and put it again where no reader looks. A shorter time reads whole tables more often;
one longer than `MIN_LOG_AGE_S` loses rows."""


class TopicThreads:
    """Threads for calls that block on file systems: the event loop, and threads of other work, must
    not wait for them. They start when they are first needed.
    """

    def __init__(self, name: str, max_threads: int) -> None:
        self._pool = ThreadPoolExecutor(max_threads, thread_name_prefix=name)

    async def run(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: work(*args, **kwargs))

    def close(self) -> None:
        """Let the threads end, without waiting for them."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A durable file that no version names yet."""

    path: str
    partition: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition as a reader sees it: first offset, next offset, and the first files it wants.
    `offset_at`: that of the requested time.
    """

    first_offset: int
    next_offset: int
    files: tuple[TopicFile, ...]
    offset_at: int = 0


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as a reader sees it at one version."""

    columns: pa.Schema
    key_columns: tuple[str, ...]
    partitions: Mapping[int, PartitionView]


class TopicTable:
    """A topic's table, shared by all its users in this process. Methods block, and may be called
    from any thread.
    """

    def __init__(self, topic: str, folder: Folder) -> None:
        self.topic, self.folder, self.log = topic, folder, folder.subfolder(LOG_FOLDER)
        self._state = TopicState()
        self._refreshed_at = 0.0
        self._state_lock = threading.Lock()  # held for moments
        self._refresh_lock = threading.Lock()  # acquired before `_state_lock`
        self._commit_lock = threading.Lock()  # keeps writers of this process from competing

    def refresh(self) -> bool:
        """Read new versions; True when there were any.

        Raises:
            ConfigError: `topic.foreign_rows`, `topic.foreign_path`, `topic.table_feature`.
            InternalError: `topic.log_damaged`.
        """
        with _translate_errors(self.topic), self._refresh_lock:
            now = _now()
            is_old = now - self._refreshed_at > MAX_STATE_AGE_S
            new = read_new_versions(self.log, -1 if is_old else self._state.version)
            state = TopicState() if new.from_checkpoint else self._state
            changed = bool(new.versions) or (new.from_checkpoint and self._state.version >= 0)
            with self._state_lock:
                for version, actions in new.versions:
                    state.apply(version, actions)
                self._state, self._refreshed_at = state, now
                self._check_features()
        return changed

    def exists(self) -> bool:
        """Return whether the topic was created."""
        self.refresh()
        return self._state.version >= 0

    @property
    def version(self) -> int:
        """The newest version that was read; -1: the topic does not exist."""
        return self._state.version

    @property
    def spec(self) -> TopicSpec:
        """What the topic was created with."""
        return self._state.spec

    @property
    def columns(self) -> pa.Schema:
        """Columns of the topic's rows."""
        return self._state.columns

    def inspect(self, read: Callable[[TopicState], _T]) -> _T:
        """Return the result of `read` for the state, which it must not keep."""
        with self._state_lock:
            return read(self._state)

    def view(
        self, offsets: Mapping[int, int], max_files: int, at_ms: int | None = None
    ) -> TopicView | None:
        """Return the view of a reader that wants partitions from these offsets on, with at most
        `max_files` of each; None when the topic does not exist. `at_ms`: a time whose offsets it
        wants to know.
        """

        def partition_view(state: TopicState, partition: int, offset: int) -> PartitionView:
            first = state.first_offset(partition)
            files = state.files_from(partition, offset, max_files)
            # a reader whose rows are there has decided already
            at = 0 if at_ms is None or offset >= first else state.offset_at(partition, at_ms)
            return PartitionView(first, state.next_offset(partition), tuple(files), at)

        def read(state: TopicState) -> TopicView | None:
            if state.version < 0:
                return None
            partitions = {p: partition_view(state, p, offset) for p, offset in offsets.items()}
            return TopicView(state.columns, state.spec.key_columns, partitions)

        return self.inspect(read)

    def ensure(
        self, schema: pa.Schema, created: TopicSpec, changed: TopicSpec | None = None
    ) -> None:
        """Create the topic, or add the columns and partitions that it lacks. `changed` is what an
        existing topic has afterwards, with at least as many partitions; None leaves them.

        Raises:
            SchemaError: `topic.schema_incompatible`, `topic.type_unsupported`, `topic.column_name`.
            RetriableError: `topic.io_failed`, `topic.commit_contended`.
        """
        columns = to_stored_schema(schema, self.topic)

        def compose(state: TopicState) -> Sequence[Action] | None:
            if state.version < 0:
                return delta_log.create_table(self.topic, columns, created, _now_ms())
            spec = changed or replace(created, partitions=1)
            return evolve_table(state, columns, spec, self.topic, _now_ms())

        with _translate_errors(self.topic):
            self.log.create()
            self.commit("topic.ensure", compose)

    def append(self, task_id: str, epoch: int, txn_id: int, files: Sequence[StagedFile]) -> int:
        """Add a transaction's files, unless the table has them already; returns the version.

        Raises:
            FencedError: `topic.stale_epoch` (invariant 4).
            InternalError: `topic.prepared_lost`.
            RetriableError: `topic.io_failed`, `topic.commit_contended`.
        """

        def compose(state: TopicState) -> Sequence[Action] | None:
            newest = state.transactions.get(task_id + EPOCH_SUFFIX, 0)
            if epoch < newest:
                raise FencedError(
                    "topic.stale_epoch",
                    f"task {task_id} is at epoch {newest} in topic {self.topic}, {epoch} is older",
                    fix="No action is needed: a newer run of the task writes there, and this one "
                    "ends.",
                )
            if is_committed(state, task_id, txn_id):
                return None
            now_ms = _now_ms()
            return [
                delta_log.commit_info(
                    now_ms, "WRITE", {"task": task_id, "epoch": epoch, "txn": txn_id}
                ),
                delta_log.set_transaction(task_id, txn_id, now_ms),
                delta_log.set_transaction(task_id + EPOCH_SUFFIX, epoch, now_ms),
                *add_staged_files(state, files, now_ms),
            ]

        lost = self._find_lost(files)
        if lost:
            self.refresh()
            # after the commit a compaction may have removed the files
            if not self.inspect(lambda state: is_committed(state, task_id, txn_id)):
                raise _prepared_lost(lost, txn_id, self.topic)
        faults.hit("topic.committing")
        version = self.commit("topic.append", compose)
        faults.hit("topic.committed")
        return version

    def commit(self, stage: str, compose: Callable[[TopicState], Sequence[Action] | None]) -> int:
        """Write the actions that `compose` returns for the newest version as the next one. Returns
        the version with their effect. None from `compose` means that there is nothing to write.
        `compose` may be called several times.

        Raises:
            RetriableError: `topic.io_failed`, `topic.commit_contended`.
        """
        deadline = time.monotonic() + COMMIT_TIMEOUT_S
        with _translate_errors(self.topic), self._commit_turn(stage):
            while time.monotonic() < deadline:
                self.refresh()
                with self._state_lock:
                    version, refreshed_at = self._state.version, self._refreshed_at
                    actions = compose(self._state)
                if actions is None:
                    # the process that wrote it may have ended before it was durable
                    self.log.sync()
                    return version
                put = put_version(self.log, version + 1, actions)
                # a process that was stopped meanwhile reads from the table what became of it
                if put and _now() - refreshed_at <= MAX_STATE_AGE_S:
                    self._apply_own_commit(version, actions)
                    return version + 1
        raise _contended(stage, self.topic)

    def _apply_own_commit(self, version: int, actions: Sequence[Action]) -> None:
        """Apply what was put after a version, unless a reader was faster."""
        with self._refresh_lock, self._state_lock:
            if self._state.version == version:
                self._state.apply(version + 1, actions)

    @contextmanager
    def _commit_turn(self, stage: str) -> Iterator[None]:
        if not self._commit_lock.acquire(timeout=COMMIT_TIMEOUT_S):
            raise _contended(stage, self.topic)
        try:
            yield
        finally:
            self._commit_lock.release()

    def _find_lost(self, files: Sequence[StagedFile]) -> str:
        """Return a file that is missing or cut; empty when all are whole. Committing it would break
        the table.
        """
        with _translate_errors(self.topic):
            sizes = self.folder.get_sizes(file.path for file in files)
        lost = (f.path for f, size in zip(files, sizes, strict=True) if size != f.bytes)
        return next(lost, "")

    def _check_features(self) -> None:
        unsupported = self._state.unsupported_features()
        if unsupported:
            raise ConfigError(
                "topic.table_feature",
                f"the table of topic {self.topic} has features that Penstock does not support: "
                f"{', '.join(unsupported)}",
                fix="Drop the features with the tool that added them.",
            )


def evolve_table(
    state: TopicState, rows: pa.Schema, spec: TopicSpec, topic: str, now_ms: int
) -> Sequence[Action] | None:
    """Return the actions that let a topic have these rows; None when it already can."""
    columns = merge_columns(state.columns, rows, topic)
    new_spec = TopicSpec(
        max(state.spec.partitions, spec.partitions),
        spec.key_columns or state.spec.key_columns,
        spec.retention if spec.retention is not None else state.spec.retention,
    )
    if columns.equals(state.columns) and new_spec == state.spec:
        return None
    return [
        delta_log.commit_info(now_ms, "CHANGE TOPIC", {}),
        *delta_log.upgrade_protocol(columns, state.protocol),
        delta_log.set_metadata(state.metadata, columns, new_spec),
    ]


def merge_columns(table: pa.Schema, rows: pa.Schema, topic: str) -> pa.Schema:
    """Return a topic's columns, with those that it lacks for these rows at the end.

    Raises:
        SchemaError: `topic.schema_incompatible`, `topic.column_name`.
    """
    names = [*table.names, *(n for n in rows.names if n not in set(table.names))]
    check_column_names(names, topic)
    columns = {field.name: field for field in table}
    for field in rows:
        existing = columns.setdefault(field.name, field)
        merged = merge_types(existing.type, field.type)
        if merged is None:
            raise SchemaError(
                "topic.schema_incompatible",
                f"column `{field.name}` of topic {topic} is {existing.type}, "
                f"rows have {field.type}",
                fix="Cast the column with a transform, or route the rows to another topic.",
                dataset=topic,
            )
        columns[field.name] = existing.with_type(merged)
    return pa.schema(columns.values())


def is_committed(state: TopicState, task_id: str, txn_id: int) -> bool:
    """Return whether the table has a transaction, which is then never added again."""
    is_newest = state.transactions.get(task_id, 0) >= txn_id
    return is_newest and not faults.hit("topic.repeat_check")


def add_staged_files(state: TopicState, files: Sequence[StagedFile], now_ms: int) -> list[Action]:
    """Return the actions that add files, each with the offset of its first row."""
    bases: dict[int, int] = {}
    actions = []
    for file in files:
        base = bases.get(file.partition, state.next_offset(file.partition))
        bases[file.partition] = base + file.rows
        added = TopicFile(base, file.rows, file.path, file.bytes, now_ms)
        actions.append(delta_log.add_file(file.partition, added, new_rows=True))
    return actions


def _prepared_lost(path: str, txn_id: int, topic: str) -> InternalError:
    return InternalError(
        "topic.prepared_lost",
        f"file {path} of transaction {txn_id} is missing or cut in topic {topic}",
        fix="A user or a tool removed prepared files. Reset the offsets of the connector to before "
        "them.",
    )


def _contended(stage: str, topic: str) -> RetriableError:
    return RetriableError(
        "topic.commit_contended",
        f"stage {stage} of topic {topic} did not become the next version within "
        f"{COMMIT_TIMEOUT_S:.0f} s",
        fix="Too many writers; give the topic fewer tasks.",
    )


def _now() -> float:
    # this clock goes on while the process, or the machine, is stopped
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def _translate_errors(topic: str) -> Iterator[None]:
    """Translate errors of the file system or the store."""
    try:
        yield
    except OSError as error:
        raise RetriableError(
            "topic.io_failed",
            f"topic {topic}: {error}",
            fix="Check space and permissions where topics are kept (`topics.dir`).",
        ) from error
