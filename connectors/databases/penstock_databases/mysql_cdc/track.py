"""Where in the log a task is: behind which transaction, and how far into the next. Pure."""

from __future__ import annotations

from penstock_databases.mysql_cdc.offsets import Offset
from penstock_databases.mysql_cdc.position import Gtids, Place, number_of


class Track:
    """Positions while the log is read.

    Attributes:
        number: Where the log was read up to, transaction or not.
        floor: Where the last transaction ends that was read; 0 when none was.
        open: Whether a transaction has begun and not ended.
        skip: Rows that come again and were given: the next ones of the open transaction.
    """

    def __init__(self, start: Offset, *, mariadb: bool) -> None:
        place = start.place
        self.number, self.floor, self.open = place.number, 0, False
        self.skip = start.rows
        self._skip_txn, self._txn, self._rows = start.txn, "", 0
        self._gtids = Gtids(place.gtid, mariadb=mariadb)
        self._file = self._end_file = place.file
        self._pos = self._end_pos = place.pos
        self._base = number_of(place.file, 0)

    @property
    def place(self) -> Place:
        """Behind the last transaction that was read as a whole."""
        return Place(self._file, self._pos, str(self._gtids))

    @property
    def before(self) -> Place:
        """Behind the last transaction, without its GTIDs: where the open one begins."""
        return Place(self._file, self._pos)

    @property
    def txn(self) -> str:
        """The GTID of the open transaction; empty when it has none."""
        return self._txn

    def begin_of(self, end: int, size: int) -> tuple[str, int]:
        """Return where an event begins that ends there; 0: it is of no log."""
        pos = self.at(end) - self._base - size if end else self._end_pos
        return self._end_file, pos

    @property
    def done(self) -> tuple[int, str]:
        """Rows read of the transaction behind the place, and its GTID."""
        return self._rows + self.skip, self._txn or self._skip_txn

    @property
    def midway(self) -> bool:
        """Whether some rows of the transaction behind the place were given."""
        return self.open or self._rows + self.skip > 0

    def again(self) -> None:
        """Begin anew behind the place; what was read of the next transaction is skipped."""
        self.skip, self._skip_txn = self.done
        self._rows, self._txn, self.open = 0, "", False

    def elsewhere(self) -> None:
        """Go on at another server, where places are others."""
        self._file = self._end_file = ""
        self._pos = self._end_pos = self._base = self.number = self.floor = 0

    def begin(self, gtid: str = "") -> None:
        """A transaction begins."""
        if not self.open:
            self._txn, self._rows = gtid, 0
            if self.skip and gtid != self._skip_txn:
                self.skip = 0  # it is not the one that was given in part
        self.open = True

    def counted(self, rows: int) -> None:
        """Take note of rows of the open transaction."""
        self._rows += rows
        self.skip -= min(self.skip, rows)

    def committed(self, end: int) -> None:
        """The open transaction ends; `end` is what its last event says of its end."""
        if self._txn:
            self._gtids.add(self._txn)
        self._txn = self._skip_txn = ""
        self._rows = self.skip = 0
        self.open = False
        self.moved(end)
        self._file, self._pos = self._end_file, self._end_pos
        self.floor = max(self.floor, self.number)

    def moved(self, end: int) -> None:
        """An event was read that ends there; 0: it is of no log."""
        if not end:
            return
        number = self.at(end)
        self._end_pos = number - self._base
        if number > self.number:
            self.number = number
            if not self.open:
                self._file, self._pos = self._end_file, self._end_pos

    def rotated(self, file: str, pos: int) -> None:
        """The log goes on in another file, or the server tells where it begins."""
        if file == self._end_file and pos <= self._end_pos:
            return
        self._end_file, self._end_pos = file, pos
        self._base = number_of(file, 0)
        if self._base + pos > self.number:
            self.number = self._base + pos
            if not self.open:
                self._file, self._pos = file, pos

    def at(self, end: int) -> int:
        """Return where an event ends as a number; files of more than 4 GiB begin to count anew."""
        if not end:
            return self.number
        if self._end_pos < 0x80000000:
            return self._base + end
        pos = self._end_pos & ~0xFFFFFFFF | end
        if pos + 0x80000000 < self._end_pos:
            pos += 1 << 32
        return self._base + pos
