"""One task of a source: its thread, from `init` to `close`.

The thread blocks in one of three places, and in all of them costs nothing: in the source's `wait`,
for credit, and after the last row. Orders of the host come from the event loop
through one condition; acks are delivered by the task's own thread, so that authors need no locks.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2 as types_pb
from penstock_connector._checkpoints import Checkpoints
from penstock_connector._credit import Window
from penstock_connector._encoder import Encoder, Piece
from penstock_connector._errors import as_connector_error
from penstock_connector._logs import set_task
from penstock_connector._outbox import Outbox
from penstock_connector._source import _SHORTEST_WAIT, Batch, Source
from penstock_connector._values import Partition
from penstock_values.messages import fill_offset

_QUIET_WAIT: Final = 30.0
"""Longest single `wait` of a source that nothing needs to interrupt. It only bounds how long a
source with a broken `wait` can sleep."""

_ACK_WAIT: Final = 0.5
"""The same for a source that takes acks but cannot be woken: its acks are late by up to this.
Shorter costs CPU while idle; a source that overrides `wake` does not pay it."""

_PROGRESS_EVERY: Final = 1.0
"""Seconds between progress frames while rows flow: often enough for a progress bar."""

_LINGER: Final = 60.0
"""Least seconds that a drained task stays fetchable. Shorter could cut off the last micro-batch of
a slow sink; longer only keeps memory when the host forgot the stream."""


class Pump:
    """Runs a source. Methods marked *loop* are called from the event loop, the rest is the
    thread's.
    """

    def __init__(
        self,
        source: Source[Any],
        encoder: Encoder,
        outbox: Outbox[pb.ReadResponse],
        *,
        task_id: str,
        epoch: int,
        until_caught_up: bool = False,
    ) -> None:
        self.task_id = task_id
        self.epoch = epoch
        self.busy_since: float | None = None
        self.progress = types_pb.Progress(lag_bytes=-1, lag_records=-1)
        self.ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._source = source
        source.until_caught_up = until_caught_up
        self._encoder = encoder
        self._outbox = outbox
        self._window = Window()
        self._changed = threading.Condition()
        self._stage = "init"
        self._idle = True  # so was the newest progress
        self._draining: float | None = None
        self._stopped = False
        self._checkpoints = Checkpoints()
        self._last_seq = 0
        self._progress_at = 0.0
        self._awaited = 0
        self._unconfirmed = False

    # ── loop ─────────────────────────────────────────────────────────────────────────────────────

    def start(self, config: Any, partitions: Sequence[Partition]) -> None:
        """Start the thread (*loop*)."""
        threading.Thread(
            target=self._run,
            args=(config, partitions),
            name=f"read-{self.task_id}",
            daemon=True,
        ).start()

    def grant(self, credit: types_pb.Credit) -> None:
        """Take credit (*loop*)."""
        with self._changed:
            self._window.grant(credit.bytes, credit.batches)
            self._changed.notify_all()

    def release(self, seq: int) -> None:
        """Let batches go (*loop*)."""
        with self._changed:
            self._window.release(seq)
            self._changed.notify_all()

    def frames(self, seq: int, *, memory_files: bool) -> list[bytes]:
        """Return what answers Fetch for a batch (*loop*)."""
        with self._changed:
            return self._window.frames(seq, memory_files=memory_files)

    def committed(self, checkpoint_id: int) -> None:
        """Hand on that all checkpoints up to this are durable; confirm what the source waits for
        (*loop*).
        """
        with self._changed:
            self._checkpoints.commit(checkpoint_id)
            self._unconfirmed = 0 < self._awaited <= checkpoint_id
            self._changed.notify_all()
        self._source.wake()

    def report(self) -> types_pb.Progress:
        """Return the newest progress, with what is known to be committed (*loop*)."""
        report = types_pb.Progress()
        report.CopyFrom(self.progress)
        report.committed_checkpoint_id = self._checkpoints.committed
        return report

    def drain(self, grace: float) -> None:
        """Finish within a time: what is in hand is still sent when there is credit (*loop*)."""
        with self._changed:
            if self._draining is None:
                self._draining = time.monotonic() + grace
            self._changed.notify_all()
        self._end_waits()

    def stop(self) -> None:
        """End without another frame: nobody listens any more (*loop*)."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._outbox.cancel()
        self._end_waits()

    def fail(self, error: BaseException) -> None:
        """End with an error that is not the source's: fenced, a broken order (*loop*)."""
        self._outbox.error = error
        self.stop()

    def hangs(self, longer_than: float) -> bool:
        """Return whether a method of the source has been running for longer than that (*loop*)."""
        busy_since = self.busy_since
        return busy_since is not None and time.monotonic() - busy_since > longer_than

    def _end_waits(self) -> None:
        self._source.stopping.set()
        self._source.wake()

    # ── thread ───────────────────────────────────────────────────────────────────────────────────

    def _run(self, config: Any, partitions: Sequence[Partition]) -> None:
        error: BaseException | None = None
        set_task(self.task_id, self.epoch)
        try:
            self._call("init", lambda: self._source.init(config))
            self._call("connect", lambda: self._source.connect(partitions))
            ends = self._source.until_caught_up and self._ends_when_caught_up(partitions)
            self._outbox.put(self._encoder.opened(type(self._source), ends_when_caught_up=ends))
            self._read(partitions)
            self._finish()
        except BaseException as raised:  # noqa: BLE001 - reported to the host, which decides
            error = as_connector_error(raised, f"{type(self._source).__name__}.{self._stage}")
        with self._changed:
            self._window.close()
        also = self._close()  # after a failed connect, close may fail for want of it
        self._outbox.finish(error or also)
        self._tell_ended()

    def _close(self) -> BaseException | None:
        try:
            self._call("close", self._source.close)
        except BaseException as raised:  # noqa: BLE001 - as above
            return as_connector_error(raised, f"{type(self._source).__name__}.close")
        return None

    def _tell_ended(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self.ended.set)
        except RuntimeError:
            return  # the loop is closed: nobody waits for this any more

    def _call(self, stage: str, method: Callable[[], Any]) -> Any:
        """Run a method of the author, so that errors name it and the heartbeat sees it hang."""
        self._stage = stage
        self.busy_since = time.monotonic()
        try:
            return method()
        finally:
            self.busy_since = None

    def _read(self, partitions: Sequence[Partition]) -> None:
        while self._may_read():
            batch = self._call("read_batch", self._source.read_batch)
            if batch is not None:
                self._source._next_wait = _SHORTEST_WAIT  # noqa: SLF001 - the SDK's own field
                self._emit(batch)
            if self._has_ended(batch):
                self._tell_progress(idle=True, now=True)
                self._outbox.put(*self._encoder.finished(partitions))
                self._checkpoints.finish()
                return
            self._tell_progress(idle=batch is None)
            if batch is None:
                self._stage = "wait"
                self._source.wait(self._wait_most())

    def _ends_when_caught_up(self, partitions: Sequence[Partition]) -> bool:
        """Return whether the source says when it has caught up, or ends by itself."""
        kind = type(self._source)
        return kind.knows_caught_up() or (kind.bounded and all(one.bounded for one in partitions))

    def _has_ended(self, batch: Batch | None) -> bool:
        source = self._source
        if batch is None and source.bounded and self._call("finished", source.finished):
            return True
        if not (source.until_caught_up and type(source).knows_caught_up()):
            return False
        with self._changed:
            if self._stopped or self._draining is not None:
                return False  # the batch may not be announced in whole
        return bool(self._call("caught_up", source.caught_up))

    def _wait_most(self) -> float:
        if not self._idle:
            return _PROGRESS_EVERY  # soon told what is left, which the heartbeat then repeats
        kind = type(self._source)
        if kind.ack is Source.ack or kind.wake is not Source.wake or kind.wait is Source.wait:
            return _QUIET_WAIT
        return _ACK_WAIT

    def _may_read(self) -> bool:
        """Wait for credit; False when the task is ending."""
        return self._wait_until(lambda: self._window.has_room() and self._checkpoints.has_room())

    def _wait_until(self, ready: Callable[[], bool]) -> bool:
        """Wait, delivering acks. False when a drain or a stop came first."""
        while True:
            self._deliver_acks()
            self._confirm()
            with self._changed:
                if self._stopped or self._draining is not None:
                    return False
                if ready():
                    return True
                if not self._checkpoints.has_acks and not self._unconfirmed:
                    self._changed.wait()

    def _emit(self, batch: Batch) -> None:
        frames = self._encoder.bad_rows(batch)
        for piece in self._encoder.pieces(batch):
            if not self._room_in_hand():
                return  # read again from the last checkpoint: nothing is lost
            frames += self._announce(piece)
            self._outbox.put(*frames)
            frames = []
        frames += self._checkpoint(batch)
        if frames:
            self._outbox.put(*frames)

    def _room_in_hand(self) -> bool:
        """Wait for credit for what was read already; a drain leaves it its grace (rule R9)."""
        with self._changed:
            while not self._window.has_room():
                if self._stopped:
                    return False
                left = None if self._draining is None else self._draining - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def _announce(self, piece: Piece) -> list[pb.ReadResponse]:
        seq = self._window.next_seq()  # only this thread moves it
        held, ready = self._encoder.ready(piece, seq)
        with self._changed:
            self._window.hold(held)
        self._last_seq = seq
        self._checkpoints.announced(piece.partition_id, piece.rows.num_rows)
        return [*piece.schema_frames, pb.ReadResponse(ready=ready)]

    def _checkpoint(self, batch: Batch) -> list[pb.ReadResponse]:
        frames = []
        if offsets := self._encoder.offsets(batch):
            with self._changed:
                rows = self._checkpoints.add(self._encoder.partition_id(batch), offsets)
                if batch.await_commit:
                    self._awaited = self._checkpoints.last_id
            checkpoint = pb.Checkpoint(
                checkpoint_id=self._checkpoints.last_id,
                rows=rows,
                last_seq=self._last_seq,
                await_commit=batch.await_commit,
            )
            for id_, offset in offsets.items():
                fill_offset(checkpoint.offsets[id_], offset)
            frames.append(pb.ReadResponse(checkpoint=checkpoint))
        if batch.finished_partition:
            frames.append(self._encoder.partition_done(batch))
        return frames

    def _deliver_acks(self) -> bool:
        """Tell the source what is durable: always after the host said so (invariant 2).

        Always true, so that it can stand in a condition before what must come after it.
        """
        with self._changed:
            offsets = self._checkpoints.take_acks()
        if offsets:
            self._call("ack", lambda: self._source.ack(offsets))
        return True

    def _confirm(self) -> None:
        """Say that the source knows what it waited for. By this thread, so never after Drained."""
        with self._changed:
            unconfirmed, self._unconfirmed = self._unconfirmed, False
        if unconfirmed:
            self._outbox.put(pb.ReadResponse(progress=self.report()))

    def _tell_progress(self, *, idle: bool, now: bool = False) -> None:
        at = time.monotonic()
        if not now and at - self._progress_at < _PROGRESS_EVERY:
            return
        bytes_left, rows_left = self._call("remaining", self._source.remaining)
        progress = types_pb.Progress(
            lag_bytes=bytes_left,
            lag_records=rows_left,
            metrics=self._source.metrics.now(),
        )
        changed, self.progress, self._progress_at = progress != self.progress, progress, at
        self._idle = idle
        if changed:
            self._outbox.put(pb.ReadResponse(progress=self.report()))

    def _finish(self) -> None:
        """Say that it is over, then stay until the host has what it was told of: its executors may
        still fetch, and the last Committed is still to come and is never dropped (invariant 2).
        """
        if not self._stopped:
            drained = pb.Drained(checkpoint_id=self._checkpoints.last_id)
            self._outbox.put(pb.ReadResponse(drained=drained))
        deadline = max(self._draining or 0, time.monotonic() + _LINGER)
        while self._deliver_acks() and self._is_awaited():
            left = deadline - time.monotonic()
            if left <= 0:
                break
            with self._changed:
                if not self._checkpoints.has_acks and not self._stopped:
                    self._changed.wait(left)
        self._deliver_acks()  # the last Committed and the end of the stream may come at once

    def _is_awaited(self) -> bool:
        with self._changed:
            acks = type(self._source).ack is not Source.ack
            unacked = acks and not self._checkpoints.all_acked
            return not self._stopped and (unacked or len(self._window) > 0)
