"""Offsets of Kafka Connect as ours, and back. Pure.

An offset is `{"partition": {…}, "offset": {…}}`, as both REST interfaces have it. What a connector
stores there depends on its class; what it is here decides how it is translated:

- a sink's positions in topics are the same in both
- `file-source`   `{"filename"} {"position"}` ↔ `{"file"} {"position"}`
- `jdbc-source`   `{"protocol", "table"} {…}` → `{"table"} {…}`; back only the number of a table
  that has an offset there, whose driver knows its name
- `mirror-source`   the same in both, as MirrorMaker writes it; checkpoints and heartbeats need none
- `mysql-cdc`, `postgres-cdc`   Debezium's place in the log ↔ ours, between two transactions

What has no equal is reported, never guessed.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final, TypeAlias, TypeGuard

Offset: TypeAlias = Mapping[str, Any]
"""`{"partition": {…}, "offset": {…}}`."""

_SINK: Final = "sink"

_SNAPSHOT_KEYS: Final = ("incremental_snapshot_primary_key", "incremental_snapshot_collections")
"""Keys of Debezium's offset while an incremental snapshot runs."""


@dataclass(frozen=True, slots=True)
class TranslatedOffset:
    """An offset of the one side, and the same of the other.

    Attributes:
        before: Where it comes from.
        after: Where it goes to; None: it has no equal, or needs none.
        loss: Why it cannot be translated; empty: it can, or `after` is not needed.
        repeats: Which rows come a second time; empty: none.
        note: What a person should know before it is used.
    """

    before: Offset
    after: Offset | None = None
    loss: str = ""
    repeats: str = ""
    note: str = ""

    @property
    def remark(self) -> str:
        """All that a person should know."""
        return "; ".join(filter(None, (self.loss, self.repeats, self.note)))


def import_offsets(
    becomes: str, kind: str, config: Mapping[str, str], offsets: Sequence[Offset]
) -> list[TranslatedOffset]:
    """Translate offsets of Kafka Connect.

    Args:
        becomes: The connector that the class is here, such as `file-source`.
        kind: `source` or `sink`.
        config: Configuration of the connector, with the keys that are added here.
        offsets: Those that are stored there.
    """
    if kind == _SINK:
        return [TranslatedOffset(one, one) for one in offsets]
    translate = _IMPORTS.get(becomes)
    if translate is None:
        loss = f"what {becomes} stores here differs from what the class stored there"
        return [TranslatedOffset(one, loss=loss) for one in offsets]
    return [translate(one, config) for one in offsets]


def export_offsets(
    becomes: str,
    kind: str,
    config: Mapping[str, str],
    offsets: Sequence[Offset],
    there: Sequence[Offset] = (),
) -> list[TranslatedOffset]:
    """Translate offsets of ours for Kafka Connect; arguments as of `import_offsets`, where `config`
    is that of the connector there, and `there` are the offsets that it has.
    """
    if kind == _SINK:
        return [TranslatedOffset(one, one) for one in offsets]
    if becomes == "jdbc-source":
        return _export_tables(offsets, config, there)
    if becomes in _LOGS:
        return _export_log(_LOGS[becomes], offsets, config, there)
    translate = _EXPORTS.get(becomes)
    if translate is None:
        loss = f"an offset of {becomes} has more in it than the class there can read"
        return [TranslatedOffset(one, loss=loss) for one in offsets]
    return [translate(one, config) for one in offsets]


def match_tables(
    offsets: Sequence[TranslatedOffset], tables: Collection[str]
) -> list[TranslatedOffset]:
    """Return offsets of a `jdbc-source` with the names that tables have here. Drivers differ in
    whether a name begins with the database; an offset of another name would have no effect.
    """
    return [_match_table(one, tables) if one.after else one for one in offsets]


def _match_table(offset: TranslatedOffset, tables: Collection[str]) -> TranslatedOffset:
    assert offset.after is not None  # noqa: S101 - the caller looked
    name = offset.after["partition"]["table"]
    for candidate in (name, name.partition(".")[2]):
        if candidate in tables:
            return replace(offset, after={**offset.after, "partition": {"table": candidate}})
    return replace(offset, after=None, loss=f"the connector reads no table {name} here")


def is_same(left: Sequence[Offset], right: Sequence[Offset]) -> bool:
    """Return whether two lists have the same offsets, in any order."""
    return _by_partition(left) == _by_partition(right)


def _by_partition(offsets: Sequence[Offset]) -> dict[frozenset[tuple[str, str]], Any]:
    return {
        frozenset((key, repr(value)) for key, value in one["partition"].items()): one["offset"]
        for one in offsets
    }


def _import_file(offset: Offset, config: Mapping[str, str]) -> TranslatedOffset:
    name, position = offset["partition"].get("filename"), (offset["offset"] or {}).get("position")
    if name != config.get("file"):
        return TranslatedOffset(offset, note="the connector does not read this file any more")
    if not isinstance(name, str) or not _is_count(position):
        return TranslatedOffset(offset, loss="it is none of a FileStreamSource")
    if not PurePosixPath(name).is_absolute():
        loss = f"{name!r} is relative: only the worker there knows which file it is"
        return TranslatedOffset(offset, loss=loss)
    here = {"partition": {"file": os.path.normpath(name)}, "offset": {"position": position}}
    note = "Kafka Connect counts characters, we count bytes: the same in a file of ASCII only"
    return TranslatedOffset(offset, here, note=note)


def _export_file(offset: Offset, config: Mapping[str, str]) -> TranslatedOffset:
    name, file = offset["partition"].get("file"), config.get("file", "")
    if not name:  # such as {"find": pattern}
        return TranslatedOffset(offset, note="Kafka Connect needs no such offset")
    if name != os.path.normpath(file):
        return TranslatedOffset(offset, note="the connector there does not read this file")
    position = offset["offset"].get("position")
    if not _is_count(position):
        return TranslatedOffset(offset, loss="it counts no bytes")
    there = {"partition": {"filename": file}, "offset": {"position": position}}
    return TranslatedOffset(offset, there)


def _import_jdbc(offset: Offset, config: Mapping[str, str]) -> TranslatedOffset:
    table, stored = offset["partition"].get("table"), offset["offset"]
    if config.get("mode") == "bulk":
        return TranslatedOffset(offset, note="a bulk copy begins anew in both")
    if not isinstance(table, str) or not stored:
        loss = "only offsets of tables have names that are the same in both, not those of a query"
        return TranslatedOffset(offset, loss=loss)
    fields = ("incrementing", "timestamp", "timestamp_nanos")
    here = {field: stored[field] for field in fields if stored.get(field) is not None}
    return TranslatedOffset(offset, {"partition": {"table": table}, "offset": here})


def _export_tables(
    offsets: Sequence[Offset], config: Mapping[str, str], there: Sequence[Offset]
) -> list[TranslatedOffset]:
    """Only the driver of the class there knows how it names a table: as in an offset of it."""
    if config.get("mode") != "incrementing":
        loss = "only the number of `mode=incrementing` is the same in both"
        return [TranslatedOffset(one, loss=loss) for one in offsets]
    found = [_export_table(one, there) for one in offsets]
    taken = [repr(one.after["partition"]) for one in found if one.after]
    loss = "two tables here have one name there"
    return [
        replace(one, after=None, loss=loss)
        if one.after and taken.count(repr(one.after["partition"])) > 1
        else one
        for one in found
    ]


def _export_table(offset: Offset, there: Sequence[Offset]) -> TranslatedOffset:
    table, stored = offset["partition"].get("table"), offset["offset"]
    if not isinstance(table, str):
        return TranslatedOffset(offset, loss="only offsets of tables have names in both")
    if not _is_count(stored.get("incrementing")):
        return TranslatedOffset(offset, loss="it has no number: it was stored by another mode")
    names = {one["partition"].get("table"): one["partition"] for one in there}
    exact = [table] if table in names else []
    named = exact or [
        name for name in names if isinstance(name, str) and name.partition(".")[2] == table
    ]
    if len(named) != 1:
        loss = f"Kafka Connect has no offset of {table} that shows how its driver names the table"
        return TranslatedOffset(offset, loss=loss)
    note = ""
    if stored.get("gaps"):
        note = "rows that appear below the last number are read here, and never there"
    after = {"partition": names[named[0]], "offset": {"incrementing": stored["incrementing"]}}
    return TranslatedOffset(offset, after, note=note)


def _import_mysql(offset: Offset, config: Mapping[str, str]) -> TranslatedOffset:
    """Debezium's file and position are those behind the last transaction, or where the one begins
    that `event` and `row` count in.
    """
    stored = offset["offset"] or {}
    if loss := _snapshot_loss(stored):
        return TranslatedOffset(offset, loss=loss)
    if not stored.get("file") or not _is_count(stored.get("pos")):
        return TranslatedOffset(offset, loss="it has no place in the binary log")
    place = {"file": stored["file"], "pos": stored["pos"]}
    if stored.get("gtids"):
        place["gtid"] = stored["gtids"]
    here = {"partition": {"server": config.get("topic.prefix", "")}, "offset": place}
    if not stored.get("event") and not stored.get("row"):
        return TranslatedOffset(offset, here)
    repeats = (
        "Debezium stopped within a transaction and counts events of the log, we count rows: its "
        "rows that were sent already come again"
    )
    return TranslatedOffset(offset, here, repeats=repeats)


@dataclass(frozen=True, slots=True)
class _Log:
    """How places in a database's log go back to Debezium.

    Attributes:
        is_read: Whether the connector there reads the partition of ours, by its configuration.
        translate: Translates an offset, given the one that is stored there.
    """

    is_read: Callable[[Mapping[str, Any], Mapping[str, str]], bool]
    translate: Callable[[Offset, Offset], TranslatedOffset]


def _export_log(
    log: _Log, offsets: Sequence[Offset], config: Mapping[str, str], there: Sequence[Offset]
) -> list[TranslatedOffset]:
    """Return the one place of a connector. Older ones, of another server or slot, are left out."""
    current = [one for one in offsets if log.is_read(one["partition"], config)]
    found = {
        id(one): TranslatedOffset(one, note="the connector there reads another server or slot")
        for one in offsets
    }
    stored = _stored_there(config, there)
    for one in current:
        if len(current) > 1:
            loss = "several places are stored, and none shows which of them is the newest"
            found[id(one)] = TranslatedOffset(one, loss=loss)
        elif stored is None:
            loss = "Kafka Connect does not show which partition the connector has there"
            found[id(one)] = TranslatedOffset(one, loss=loss)
        else:
            found[id(one)] = log.translate(one, stored)
    return [found[id(one)] for one in offsets]


def _stored_there(config: Mapping[str, str], there: Sequence[Offset]) -> Offset | None:
    """Return the offset that a connector of Debezium has: that of its `topic.prefix`, else its only
    one. A prefix that is a reference, such as `${env:NAME}`, names none.
    """
    prefix = config.get("topic.prefix", "")
    if _is_plain(prefix):
        named = [one for one in there if one["partition"].get("server") == prefix]
        return named[0] if named else {"partition": {"server": prefix}, "offset": {}}
    return there[0] if len(there) == 1 else None


def _is_plain(value: str) -> bool:
    return bool(value) and "${" not in value


def _reads_server(partition: Mapping[str, Any], config: Mapping[str, str]) -> bool:
    prefix = config.get("topic.prefix", "")
    return not _is_plain(prefix) or partition.get("server") == prefix


def _reads_slot(partition: Mapping[str, Any], config: Mapping[str, str]) -> bool:
    """Return whether database and slot are the same; `debezium` is the default there."""
    wanted = {
        "database": config.get("database.dbname", ""),
        "slot": config.get("slot.name", "debezium"),
    }
    return all(partition.get(key) == value for key, value in wanted.items() if _is_plain(value))


def _export_mysql(offset: Offset, there: Offset) -> TranslatedOffset:
    """Debezium goes on at the place, with the tables that its history of schemas has there."""
    stored = offset["offset"]
    if stored.get("snapshot"):
        return TranslatedOffset(offset, loss=_READS_TABLES)
    if stored.get("prepared"):
        loss = "transactions are prepared (XA) and not ended: Debezium cannot go back to them"
        return TranslatedOffset(offset, loss=loss)
    if not stored.get("file"):
        return TranslatedOffset(offset, loss="it has no file of the binary log")
    place = {"file": stored["file"], "pos": stored.get("pos") or _MYSQL_FIRST}
    note = _HISTORY_NOTE
    if gtids := (there["offset"] or {}).get("gtids"):
        # Debezium reads what is outside of the set: one that begins later would repeat the log
        if contains_gtids(stored.get("gtid") or "", gtids):
            place["gtids"] = stored["gtid"]
        else:
            note += "; it goes on by file and position, since ours does not have all of its GTIDs"
    repeats = _PART_REPEATS if stored.get("rows") else ""
    after = {"partition": there["partition"], "offset": place}
    return TranslatedOffset(offset, after, repeats=repeats, note=note)


def contains_gtids(ours: str, theirs: str) -> bool:
    """Return whether a set of GTIDs has all of another one: of MySQL (`uuid:1-5:7`), or of MariaDB
    (`0-1-9`: all of a domain up to a number).
    """
    try:
        return _contains_intervals(_intervals(ours), _intervals(theirs))
    except ValueError:  # of another server, or with tags
        return False


def _intervals(gtids: str) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for one in filter(None, (part.strip() for part in gtids.split(","))):
        source, colon, rest = one.partition(":")
        if not colon:
            domain, _, number = one.split("-")
            found.setdefault(domain, []).append((1, int(number)))
            continue
        for interval in rest.split(":"):
            first, _, last = interval.partition("-")
            found.setdefault(source.lower(), []).append((int(first), int(last or first)))
    return found


def _contains_intervals(
    ours: Mapping[str, Sequence[tuple[int, int]]], theirs: Mapping[str, Sequence[tuple[int, int]]]
) -> bool:
    return all(
        any(low <= first and last <= high for low, high in ours.get(source, ()))
        for source, wanted in theirs.items()
        for first, last in wanted
    )


_MYSQL_FIRST: Final = 4
"""Where the first event of a binary log is."""

_READS_TABLES: Final = "tables are still read here, row by row: let that end first"
_PART_REPEATS: Final = (
    "a transaction was given in part here, and Debezium counts its rows otherwise: those that were "
    "sent already come again"
)
_HISTORY_NOTE: Final = (
    "Debezium's history of schemas ends where it stopped: if tables were made or altered since, "
    "let it begin once with snapshot.mode=recovery (before Debezium 2.6: schema_only_recovery)"
)


def _import_postgres(offset: Offset, config: Mapping[str, str]) -> TranslatedOffset:
    """`lsn_commit` is the place behind the last transaction that ended; `lsn` is that of the last
    change, which may be of a later one.
    """
    stored = offset["offset"] or {}
    if loss := _snapshot_loss(stored):
        return TranslatedOffset(offset, loss=loss)
    commit = stored.get("lsn_commit")
    if not _is_count(commit):
        return TranslatedOffset(offset, loss="it does not show where the last transaction ended")
    where = {"database": config.get("database.dbname", ""), "slot": config.get("slot.name", "")}
    place = {"lsn": f"{commit >> 32:X}/{commit & 0xFFFFFFFF:X}"}
    here = {"partition": where, "offset": place}
    repeats = (
        "Debezium stores where a change is, not how many of its transaction were sent: rows of one "
        "transaction may come again"
    )
    return TranslatedOffset(offset, here, repeats=repeats)


def _export_postgres(offset: Offset, there: Offset) -> TranslatedOffset:
    """A place behind a transaction: Debezium begins at the first one that commits after it."""
    stored = offset["offset"]
    if stored.get("snapshot"):
        return TranslatedOffset(offset, loss=_READS_TABLES)
    high, _, low = str(stored.get("lsn", "")).partition("/")
    try:
        lsn = int(high, 16) << 32 | int(low, 16)
    except ValueError:
        return TranslatedOffset(offset, loss="it has no place in the log")
    place = {"lsn": lsn, "lsn_proc": lsn, "lsn_commit": lsn, "messageType": "COMMIT"}
    after = {"partition": there["partition"], "offset": place}
    return TranslatedOffset(offset, after, repeats=_PART_REPEATS if stored.get("within") else "")


_LOGS: Final[Mapping[str, _Log]] = {
    "mysql-cdc": _Log(_reads_server, _export_mysql),
    "postgres-cdc": _Log(_reads_slot, _export_postgres),
}


def _snapshot_loss(stored: Mapping[str, Any]) -> str:
    """Return why an offset cannot be used while tables are read."""
    if stored.get("snapshot") not in (None, False, "false"):
        return (
            "it is that of Debezium's snapshot: let that end there and a change come after it, or "
            "begin anew here"
        )
    if any(stored.get(key) for key in _SNAPSHOT_KEYS):
        return "an incremental snapshot has not ended: let it end there, or begin anew here"
    return ""


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_MIRROR: Final = "mirror-source"
_MIRRORS: Final = (_MIRROR, "mirror-checkpoint-source", "mirror-heartbeat-source")


def _keep_mirror(becomes: str, offset: Offset, _config: Mapping[str, str]) -> TranslatedOffset:
    if becomes == _MIRROR:
        return TranslatedOffset(offset, offset)
    return TranslatedOffset(offset, note="it says nothing: the next one is written by the clock")


_Translations: TypeAlias = Mapping[str, Callable[[Offset, Mapping[str, str]], TranslatedOffset]]

_OF_MIRRORS: Final[_Translations] = {name: partial(_keep_mirror, name) for name in _MIRRORS}
_IMPORTS: Final[_Translations] = {
    **_OF_MIRRORS,
    "file-source": _import_file,
    "jdbc-source": _import_jdbc,
    "mysql-cdc": _import_mysql,
    "postgres-cdc": _import_postgres,
}
_EXPORTS: Final[_Translations] = {
    **_OF_MIRRORS,
    "file-source": _export_file,
}
