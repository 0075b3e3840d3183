r"""The offset: where in the log, and how far the snapshot is. Plain values that people can read.

    {"file": "binlog.000004", "pos": 512, "gtid": "0-1-9", "server": "1/…",
     "rows": 0, "txn": "",                     rows given of the transaction that comes next
     "counted": ["0-1-10", {"shop.orders": 7}],      changes given of it, where they are counted
     "signals": {"file": [120, "9f86d08188"], "kafka": 7},   how far channels of signals were read
     "lists": {"table.include.list": ["shop\\.orders"]},    which tables were meant
     "snapshot": {"work": [{"table": ["shop", "orders"], "last": ["i:41"], …}],
                  "windows": [{"table": […], "after": […], "upto": […], "file": …, "pos": …}]}}

`{"file", "pos"}` or `{"gtid"}` alone are valid: the log from there on, without a snapshot. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from penstock_connector import ConfigError
from penstock_databases.cdc.progress import Key, Window, Work
from penstock_databases.cdc.selection import Lists
from penstock_databases.mysql_cdc.position import KeyValue, Place
from penstock_databases.mysql_cdc.progress import TableProgress
from penstock_databases.mysql_cdc.statements import TableName


@dataclass(slots=True)
class Offset:
    """An offset.

    Attributes:
        place: Behind the last transaction that was given as a whole.
        server: Whose places these are.
        rows: Rows given of the transaction behind the place.
        txn: The GTID of that transaction, where there is one.
        progress: The snapshot.
        prepared: Where transactions begin that were prepared (XA) and not ended, by their names.
        lists: The lists that said which tables are meant; None: those of now.
        counted: The transaction behind the place, where its changes are counted, and how many were
            given of each table.
    """

    place: Place
    server: str = ""
    rows: int = 0
    txn: str = ""
    prepared: Mapping[str, Place] = field(default_factory=dict)
    progress: TableProgress = field(default_factory=TableProgress)
    lists: Lists | None = None
    counted: tuple[str, Mapping[str, int]] = ("", MappingProxyType({}))


def to_fields(offset: Offset) -> dict[str, Any]:
    """Return an offset as the host keeps it."""
    fields: dict[str, Any] = {
        "file": offset.place.file,
        "pos": offset.place.pos,
        "gtid": offset.place.gtid,
        "server": offset.server,
    }
    if offset.rows:
        fields |= {"rows": offset.rows, "txn": offset.txn}
    if offset.counted[0]:
        fields["counted"] = [offset.counted[0], dict(offset.counted[1])]
    if offset.lists is not None:
        fields["lists"] = {name: list(patterns) for name, patterns in offset.lists.items()}
    if offset.prepared:
        fields["prepared"] = {xid: [at.file, at.pos] for xid, at in offset.prepared.items()}
    if offset.progress.signals:
        fields["signals"] = dict(offset.progress.signals)
    if offset.progress.running:
        fields["snapshot"] = {
            "work": [_work(work) for work in offset.progress.work.values()],
            "windows": [_window(window) for window in offset.progress.windows],
        }
        for name in ("paused", "started"):
            if getattr(offset.progress, name):
                fields["snapshot"][name] = True
    return fields


def from_fields(fields: Mapping[str, Any]) -> Offset:
    """Return the offset that the host kept, or that a person wrote.

    Raises:
        ConfigError: `cdc.offset_unreadable`.
    """
    try:
        snapshot = fields.get("snapshot") or {}
        progress = TableProgress()
        for one in snapshot.get("work") or []:
            work = _read_work(one)
            progress.work[work.table] = work
        progress.paused = bool(snapshot.get("paused"))
        progress.started = bool(snapshot.get("started"))
        progress.signals = dict(fields.get("signals") or {})
        progress.windows = [_read_window(one) for one in snapshot.get("windows") or []]
        place = Place(
            str(fields.get("file") or ""),
            int(fields.get("pos") or 4),
            str(fields.get("gtid") or ""),
        )
        if not place.file and not place.gtid:
            raise ValueError("neither file nor gtid")
        return Offset(
            place,
            str(fields.get("server") or ""),
            int(fields.get("rows") or 0),
            str(fields.get("txn") or ""),
            {
                str(xid): Place(str(file), int(pos))
                for xid, (file, pos) in (fields.get("prepared") or {}).items()
            },
            progress,
            _read_lists(fields.get("lists")),
            _read_counted(fields.get("counted")),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            "cdc.offset_unreadable",
            f"the offset cannot be read: {error}",
            fix='Write {"file": "binlog.000001", "pos": 4} or {"gtid": "0-1-9"}, or reset it.',
        ) from error


def _read_counted(counted: Sequence[Any] | None) -> tuple[str, Mapping[str, int]]:
    if not counted:
        return "", {}
    id_, counts = counted
    return str(id_), {str(table): int(count) for table, count in counts.items()}


def _read_lists(lists: Mapping[str, Any] | None) -> Lists | None:
    if lists is None:
        return None
    return {str(name): [str(one) for one in patterns] for name, patterns in lists.items()}


def _work(work: Work[TableName]) -> dict[str, Any]:
    fields: dict[str, Any] = {"table": list(work.table)}
    if work.begun:
        fields |= {"begun": True, "last": _key(work.last)}
    if work.keep:
        fields["keep"] = True
    if work.condition:
        fields["condition"] = work.condition
    if work.incremental:
        fields["incremental"] = True
    return fields


def _read_work(fields: Mapping[str, Any]) -> Work[TableName]:
    return Work(
        _table(fields["table"]),
        _read_key(fields.get("last")),
        bool(fields.get("begun")),
        bool(fields.get("keep")),
        condition=str(fields.get("condition") or ""),
        incremental=bool(fields.get("incremental")),
    )


def _window(window: Window[TableName, Place]) -> dict[str, Any]:
    return {
        "table": list(window.table),
        "after": _key(window.after),
        "upto": _key(window.upto),
        "file": window.place.file,
        "pos": window.place.pos,
        "exact": window.exact,
    }


def _read_window(fields: Mapping[str, Any]) -> Window[TableName, Place]:
    return Window(
        _table(fields["table"]),
        _read_key(fields.get("after")),
        _read_key(fields.get("upto")),
        Place(str(fields["file"]), int(fields["pos"])),
        bool(fields.get("exact", True)),
    )


def _table(names: Sequence[Any]) -> TableName:
    database, table = names
    return str(database), str(table)


def _key(key: Key | None) -> list[str] | None:
    return None if key is None else [_text(value) for value in key]


def _text(value: KeyValue) -> str:
    """Return a value of a key as text: an offset has no numbers above 63 bits."""
    match value:
        case int():
            return f"i:{value}"
        case bytes():
            return f"b:{value.hex()}"
    return f"s:{value}"


def _read_key(texts: Sequence[str] | None) -> Key | None:
    return None if texts is None else tuple(_value(text) for text in texts)


def _value(text: str) -> KeyValue:
    kind, _, value = text.partition(":")
    if kind == "i":
        return int(value)
    return bytes.fromhex(value) if kind == "b" else value
