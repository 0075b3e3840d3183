"""The loop of a lane: a Spark task that stays up and moves the rows of one slot after another.

It runs in a Python worker and calls the driver (`lanes`) back. Each frame has a length (4 bytes,
big endian), a tag of one byte, and a body:

- `H`, loop → driver, first: JSON with the `token` of the engine, and the `lane`
- `F`, driver → loop: the name of a function (32 bytes); kernels and `tracked`, pickled
- `T`, driver → loop: the name of a function, the attempt (4 bytes), a ticket of one slot as JSON
- `A`, loop → driver, twice a second while it moves rows: the CPU seconds of its process since the
  last frame (a float of 8 bytes)
- `R`, loop → driver: CPU seconds as above, and the report of the slot as JSON

The loop ends when the driver hangs up; in the middle of a slot it ends its process, so that nothing
of a cancelled slot is written any more.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import socket
import ssl
import struct
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark import cloudpickle

from penstock.model.errors import RetriableError
from penstock.model.ticket import SlotReport, Ticket
from penstock.spark import partition_functions, slot_reports
from penstock.spark.partition_functions import TICKET_PROPERTY, Kernel, move_slot

DDL: Final = "served bigint"
"""The one row that the job of a lane returns: the number of slots that it moved."""

HELLO, FUNCTION, TICKET, ALIVE, REPORT = b"H", b"F", b"T", b"A", b"R"

NAME_BYTES: Final = 32

ATTEMPT: Final = struct.Struct("!I")

CPU: Final = struct.Struct("!d")

HEARTBEAT_S: Final = 0.5
"""Interval at which the loop says that it is alive while it moves rows."""

CONNECT_TIMEOUT_S: Final = 10.0

_LENGTH: Final = struct.Struct("!I")

_HANG_UP: Final = getattr(select, "POLLRDHUP", 0)
"""Where the system has no such event, Spark ends the process of a cancelled job."""


@dataclass(frozen=True, slots=True)
class LaneFunction:
    """What a lane runs for the slots of a plan: kernels and `tracked`, pickled. `name` is its
    digest.
    """

    name: bytes
    pickled: bytes = field(repr=False)

    @staticmethod
    def of(kernels: Sequence[Kernel], *, tracked: bool) -> LaneFunction:
        """Return the function of a chain of kernels."""
        pickled = cloudpickle.dumps((tuple(kernels), tracked))
        return LaneFunction(hashlib.sha256(pickled).digest(), pickled)


def frame(tag: bytes, body: bytes = b"") -> bytes:
    """Return a frame."""
    return _LENGTH.pack(len(body) + 1) + tag + body


def frame_length(head: bytes) -> int:
    """Return how many bytes follow the first four of a frame."""
    return int(_LENGTH.unpack(head)[0])


def run_lane(slot_ids: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Serve the driver until it hangs up. The address is in the local property of the job."""
    for _ in slot_ids:
        pass
    spec = json.loads(partition_functions.task_context().getLocalProperty(TICKET_PROPERTY))
    with _connect(spec) as driver:
        served = _Loop(driver).serve(spec["token"], spec["lane"])
    yield pa.RecordBatch.from_pydict({"served": pa.array([served], pa.int64())})


def make_client_context(certificate: str) -> ssl.SSLContext:
    """Return the context of a lane that trusts this certificate alone, whatever the address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.load_verify_locations(cadata=certificate)
    return context


def _connect(spec: Mapping[str, Any]) -> socket.socket:
    driver = socket.create_connection((spec["host"], spec["port"]), CONNECT_TIMEOUT_S)
    driver.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if spec["certificate"]:
        driver = make_client_context(spec["certificate"]).wrap_socket(driver)
    driver.settimeout(None)
    return driver


class _Loop:
    """One connection to the driver."""

    def __init__(self, driver: socket.socket) -> None:
        self._driver = driver
        self._sending = threading.Lock()
        self._moves = False
        self._cpu_s = time.process_time()
        self._functions: dict[bytes, tuple[Sequence[Kernel], bool]] = {}

    def serve(self, token: str, lane: int) -> int:
        """Move slots until the driver hangs up. Returns how many."""
        hello = json.dumps({"token": token, "lane": lane}).encode()
        self._driver.sendall(frame(HELLO, hello))
        threading.Thread(target=self._watch, name="lane watch", daemon=True).start()
        served = 0
        while (received := self._receive()) is not None:
            tag, body = received[:1], received[1:]
            if tag == FUNCTION:
                self._functions[body[:NAME_BYTES]] = cloudpickle.loads(body[NAME_BYTES:])
                continue
            self._moves = True
            self._report(self._move(body))
            served += 1
        return served

    def _move(self, body: bytes) -> SlotReport:
        kernels, tracked = self._functions[body[:NAME_BYTES]]
        (attempt,) = ATTEMPT.unpack_from(body, NAME_BYTES)
        ticket = Ticket.from_json(body[NAME_BYTES + ATTEMPT.size :].decode())
        slot = ticket.slots[0]
        try:
            return move_slot(ticket, slot, attempt, kernels, tracked)
        except Exception as error:  # noqa: BLE001 - the loop goes on for other tasks
            failed = RetriableError(
                "engine.job_failed",
                f"a slot failed: {type(error).__name__}: {str(error)[:500]}",
                fix="The worker retries the micro-batch; the detail says where it failed.",
                detail=traceback.format_exc()[-2000:],
            )
            return SlotReport(slot.slot, attempt, error=failed.diagnostic)

    def _watch(self) -> None:
        """Say that the loop is alive while it moves rows, and end it when the driver hangs up."""
        poller = select.poll()
        poller.register(self._driver, _HANG_UP)
        try:
            while not poller.poll(HEARTBEAT_S * 1000):
                self._beat()
        except (OSError, ValueError):
            return  # the loop has ended, and closed the connection
        if self._moves:
            os._exit(1)

    def _beat(self) -> None:
        with self._sending:
            if self._moves:  # a connection with TLS cannot be read and written at the same time
                self._driver.sendall(frame(ALIVE, self._take_cpu()))

    def _report(self, report: SlotReport) -> None:
        text = json.dumps(slot_reports.report_row(report)).encode()
        with self._sending:
            self._moves = False
            self._driver.sendall(frame(REPORT, self._take_cpu() + text))

    def _take_cpu(self) -> bytes:
        """Return the CPU seconds since the last call."""
        before, self._cpu_s = self._cpu_s, time.process_time()
        return CPU.pack(self._cpu_s - before)

    def _receive(self) -> bytes | None:
        head = self._read(_LENGTH.size)
        return None if head is None else self._read(frame_length(head))

    def _read(self, count: int) -> bytes | None:
        """Return so many bytes; None when the driver has hung up."""
        found = bytearray()
        while len(found) < count:
            try:
                part = self._driver.recv(min(count - len(found), 1 << 20))
            except ConnectionError:
                return None
            if not part:
                return None
            found += part
        return bytes(found)
