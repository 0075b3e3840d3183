"""Rows of a statement as they come over the wire, in blocks.

The driver logs in, speaks TLS, sends the statement and reads the head of its result. The rows are
read here, from its socket: block after block, each cut into columns at once (`packets`). This
leans on the driver's inside, so its version is pinned; `test_mysql_wire` compares both ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pymysql import err
from pymysql.protocol import MysqlPacket

from penstock_databases.mysql.packets import HEAD, LONGEST, columns, one_row, sequence_fits, split

BLOCK: Final = 256 << 10
"""Bytes of a block. Less costs more calls a row; more leaves the processor's cache."""

_END, _FAILED = 0xFE, 0xFF
_END_BELOW: Final = 9
"""A packet that begins with 254 is the end when it is shorter than this; else a long first cell."""

_MALFORMED: Final = 2027
"""The number that clients of MySQL give a packet that cannot be."""

_MESSAGE_MOST: Final = 1100
"""Bytes of an error's packet, in which its mark is looked for."""


class RowStream:
    """The rows of one statement. Iterate to the end, or the connection is closed: what is left on
    the wire belongs to nobody else.
    """

    def __init__(self, driver: Any, statement: str, block: int = 0) -> None:
        driver.query(statement, unbuffered=True)
        self._driver = driver
        self._result = driver._result  # noqa: SLF001 - see above
        self._data = bytearray(block or BLOCK)
        self._size = 0
        self._next = driver._next_seq_id  # noqa: SLF001 - see above
        self.count = len(self._result.fields or ())

    def __iter__(self) -> Iterator[list[pa.Array]]:
        """Give the cells of some rows, column by column, as bytes."""
        try:
            yield from self._blocks()
        except (OSError, EOFError) as error:
            raise err.OperationalError(2013, f"connection lost: {error}") from error
        finally:
            if self._result.unbuffered_active:
                self._let_go()
                self._driver._force_close()  # noqa: SLF001 - see above

    def _blocks(self) -> Iterator[list[pa.Array]]:
        self._begin()
        while True:
            self._fill()
            starts, end = split(self._data, self._size)
            if not len(starts):
                yield from self._large()
                continue
            if not sequence_fits(self._data, starts, self._next):
                raise err.InternalError(_MALFORMED, "packets came in another order")
            self._next = (self._next + len(starts)) & 0xFF
            last = int(starts[-1])
            mark, length = self._data[last + HEAD], end - last - HEAD
            over = mark == _FAILED or (mark == _END and length < _END_BELOW)
            rows, rows_end = (starts[:-1], last) if over else (starts, end)
            if len(rows):
                cells = columns(self._data, rows, rows_end, self.count)
                if cells is None:
                    raise err.InternalError(_MALFORMED, "a packet's cells do not add up")
                yield cells
            if over:
                self._let_go()
                if mark == _FAILED:
                    self._raise(bytes(self._data[last + HEAD : end]))
                return
            self._keep_from(end)

    def _begin(self) -> None:
        """Take what the driver has read already, and its time limit."""
        driver = self._driver
        driver._sock.settimeout(driver._read_timeout)  # noqa: SLF001 - see above
        driver._current_timeout = driver._read_timeout  # noqa: SLF001 - see above
        head = driver._rfile.read1(len(self._data))  # noqa: SLF001 - see above
        self._data[: len(head)] = head
        self._size = len(head)
        self._socket = driver._rfile.raw  # noqa: SLF001 - see above

    def _fill(self) -> None:
        """Read until the block is full, or the last packet came."""
        while self._size < len(self._data) and not self._has_end():
            self._read()

    def _read(self) -> None:
        with memoryview(self._data) as view:
            count = self._socket.readinto(view[self._size :])
        if not count:
            raise EOFError("the server ended it")
        self._size += count

    def _has_end(self) -> bool:
        """Return whether what came may end with the last packet. Looked for from behind, so it can
        be a cell that looks like it: then there is simply less in the block.
        """
        data, size = self._data, self._size
        end = data[size - 9 : size - 4] if size >= 9 else b""
        if len(end) == 5 and end[:3] == b"\x05\0\0" and end[4] == _END:
            return True
        at, low = size, max(0, size - _MESSAGE_MOST)
        while (at := data.rfind(b"#", low, at)) >= 7:  # ff, two bytes of a code, #, the message
            length = int.from_bytes(data[at - 7 : at - 4], "little")
            if data[at - 3] == _FAILED and at - 3 + length == size:
                return True
        return False

    def _large(self) -> Iterator[list[pa.Array]]:
        """Make room for a packet that is larger than the block, or read one in several parts."""
        length = int.from_bytes(self._data[:3], "little")
        if self._size < HEAD or length != LONGEST:
            wanted = HEAD + length if self._size >= HEAD else 0
            if wanted > len(self._data):
                self._data = self._data[: self._size] + bytearray(wanted - self._size)
            if self._size < len(self._data):
                self._read()
            return
        row = bytearray()
        while length == LONGEST:
            self._need(HEAD)
            if self._data[3] != self._next:
                raise err.InternalError(_MALFORMED, "packets came in another order")
            self._next = (self._next + 1) & 0xFF
            length = int.from_bytes(self._data[:3], "little")
            self._need(HEAD + length)
            row += self._data[HEAD : HEAD + length]
            self._keep_from(HEAD + length)
        yield one_row(bytes(row), self.count)

    def _need(self, size: int) -> None:
        if size > len(self._data):
            self._data = self._data[: self._size] + bytearray(size - self._size)
        while self._size < size:
            self._read()

    def _keep_from(self, end: int) -> None:
        rest = self._data[end : self._size]
        self._data[: len(rest)] = rest
        self._size = len(rest)

    def _let_go(self) -> None:
        """Tell the driver that its result was read."""
        self._result.unbuffered_active = False
        self._result.connection = None
        self._driver._next_seq_id = self._next  # noqa: SLF001 - see above

    def _raise(self, packet: bytes) -> None:
        MysqlPacket(packet, self._driver.encoding).raise_for_error()
