"""Which tables are followed, and which of them are still to be read.

A table that comes while the task runs was born in the log when the publication has all tables: the
log then has all of its rows. Any other new one has rows that the log does not have, and is read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable

from penstock_connector import ConfigError, SchemaError
from penstock_connector.tables.names import TableId
from penstock_databases.cdc.signal_table import creation_of
from penstock_databases.cdc.signals import Signal, obey_signal
from penstock_databases.cdc.snapshot_statements import SnapshotStatement
from penstock_databases.dialect import Connection
from penstock_databases.names import POSTGRESQL
from penstock_databases.postgres_cdc.config import PostgresCdcConfig
from penstock_databases.postgres_cdc.origins import ORIGIN_TYPE
from penstock_databases.postgres_cdc.pgoutput import Message, Relation
from penstock_databases.postgres_cdc.progress import TableProgress
from penstock_databases.postgres_cdc.publication import (
    Membership,
    Published,
    ensure_publication,
    existing,
    published,
    unwanted,
)
from penstock_databases.postgres_cdc.rows import RowShape
from penstock_databases.postgres_cdc.shapes import Naming, Shapes

SIGNAL_PREFIX = "penstock"
"""Prefix of messages in the log that are for connectors."""

_log = logging.getLogger(__name__)


class Tables:
    """The tables of a task.

    Attributes:
        followed: Numbers of those that are followed: they were read, or are to be.
        progress: What is still to be read.
        shapes: What their rows look like.
    """

    def __init__(
        self, config: PostgresCdcConfig, followed: Iterable[int], progress: TableProgress
    ) -> None:
        self.followed = set(followed)
        self.progress = progress
        self.shapes = Shapes(
            Naming(
                config.topic_prefix,
                config.hidden(),
                config.toast_missing == "null",
                config.message_keys,
                config.target().database,
                config.origin_type(ORIGIN_TYPE),
            )
        )
        self._config = config
        self._connection: Connection | None = None
        self._published: dict[int, Published] = {}
        self._existing: frozenset[int] = frozenset()
        self._everything = False
        self._told: set[str] = set()
        self._reads = config.reads_tables

    def look(
        self, connection: Connection, version: int, *, first: bool = False, new: bool = False
    ) -> bool:
        """Look which tables there are; returns whether there are new ones.

        Args:
            connection: A session, which is also asked later.
            version: The server's.
            first: No table was looked for before in this task.
            new: There was no task before, so somebody is there who can mend the tables.
        """
        self._connection = connection
        keyless = self._config.replica_identity_missing
        how = Membership(
            self._config.publication_name,
            self._config.publication_autocreate_mode,
            "skip" if keyless == "fail" and not new else keyless,
            self._told,
        )
        self._everything = ensure_publication(connection, how, self._config.published, version)
        name, before = self._config.publication_name, self._existing
        self._existing = existing(connection)
        found = published(connection, name, self._config.published)
        self._tell_signals({str(one.table) for one in found.values()})
        self._published = {oid: one for oid, one in found.items() if self._config.wanted(one.table)}
        added = [oid for oid in self._published if oid not in self.followed]
        born = frozenset() if first else frozenset(added) - before
        for oid in added:
            self._follow(oid, born=self._everything and oid in born)
        self.keep_partial()  # the configuration may have been another one
        return bool(added)

    def check_keys(self, connection: Connection) -> None:
        """Refuse keys of `message.key.columns` that the tables, as they are now, do not have.

        Raises:
            ConfigError: `cdc.key_column`, `cdc.key_not_logged`.
        """
        for found in self._published.values():
            if self._config.message_keys.names(str(found.table)):
                self.shapes.of_table(connection, found)

    def leave_out(self, connection: Connection) -> None:
        """Forget the tables that are not wanted any more: named again, they are read again."""
        left_out = unwanted(connection, self.followed, self._config.wanted)
        for oid in left_out:
            self.followed.discard(oid)
            self.progress.forget(oid)
        if left_out:
            names = ", ".join(sorted(map(str, left_out.values()))[:10])
            _log.info("%d tables are not wanted any more: %s", len(left_out), names)

    def find(self, oid: int) -> Published | None:
        """Return a table by its number."""
        return self._published.get(oid)

    def read_all(self, *, again: bool) -> None:
        """Plan to read all tables."""
        self.followed.update(self._published)
        self.progress.add(self._published, keep=again)
        self.keep_partial()

    def keep_partial(self) -> None:
        """Leave out no change of tables of which a statement reads only some rows."""
        self.progress.keep_all([oid for oid in self.progress.work if self.statement_of(oid)])

    def has_rows(self, connection: Connection, oid: int) -> bool:
        """Return whether a table that is to be read has rows now; one that is read by a statement
        may have some.
        """
        found = self._published.get(oid)
        if found is None or self.statement_of(oid):
            return found is not None
        name = found.table.sql(POSTGRESQL)
        condition = f" WHERE {found.rows.replace('%', '%%')}" if found.rows else ""
        only = "" if found.parted else "ONLY "
        try:
            sql = f"SELECT 1 FROM {only}{name} t{condition} LIMIT 1"  # noqa: S608 - quoted names
            return bool(connection.execute(sql))
        except SchemaError as error:
            if error.code != "sql.no_table":
                raise
            return False

    def statement_of(self, oid: int) -> SnapshotStatement | None:
        """Return what is read in place of a table; None: the table."""
        found = self._published.get(oid)
        return None if found is None else self._config.snapshot_statements.get(str(found.table))

    # ── what the log tells ───────────────────────────────────────────────────────────────────────

    def shape_of(self, relation: Relation) -> RowShape | None:
        """Return the shape of a table's rows; None when it is not followed."""
        table = TableId(relation.name, schema=relation.schema)
        if not self._config.published(table):
            return None
        assert self._connection is not None  # noqa: S101 - `look` comes first
        if not self._config.wanted(table):
            return self.shapes.of_signals(self._connection, relation)
        if relation.oid not in self.followed:
            self._follow(relation.oid, born=self._everything and relation.oid not in self._existing)
        return self.shapes.of_relation(self._connection, relation)

    def signal(self, message: Message) -> None:
        """Take a message: `{"snapshot": "schema.table"}` reads a table again."""
        if message.prefix != SIGNAL_PREFIX:
            return
        try:
            order = json.loads(message.content)
            names = order["snapshot"]
            slot = order.get("slot", self._config.slot_name)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            _log.warning("a signal in the log cannot be read: it is no JSON with `snapshot`")
            return
        if slot != self._config.slot_name:
            return
        wanted = {names} if isinstance(names, str) else set(map(str, names))
        for oid, found in self._published.items():
            if str(found.table) in wanted:
                wanted.discard(str(found.table))
                if not self.progress.reads_all(oid):
                    self.progress.add([oid], keep=True, incremental=True)
        if wanted:
            _log.warning("a signal names tables that are not followed: %s", sorted(wanted)[:10])

    def has_signals(self, shape: RowShape) -> bool:
        """Return whether changes are those of the table of signals."""
        return str(shape.table) == self._config.signals_table

    def is_given(self, shape: RowShape) -> bool:
        """Return whether changes are for others, too: the table of signals may not be wanted."""
        return self._config.wanted(shape.table)

    def obey(self, signals: Iterable[Signal | ConfigError]) -> None:
        """Do what signals ask for."""
        for signal in signals:
            if isinstance(signal, ConfigError):
                _log.warning("%s", signal)
                continue
            tables = {oid: str(found.table) for oid, found in self._published.items()}
            _log.info("signal: %s", obey_signal(signal, self.progress, tables, self._read_again))

    def _read_again(self, oid: int, condition: str) -> None:
        self.progress.add([oid], keep=True, condition=condition, incremental=True)

    def _tell_signals(self, tables: Collection[str]) -> None:
        """Tell once of a table of signals that is not in the log."""
        name, publication = self._config.signals_table, self._config.publication_name
        if not name or name in tables or name in self._told:
            return
        self._told.add(name)
        fix = creation_of(name)
        if self._config.publication_autocreate_mode == "disabled":
            fix += f"; ALTER PUBLICATION {publication} ADD TABLE {name}"
        _log.warning(
            "`signal.data.collection` names %s, which is not in the publication %s: no signal is "
            "read. Run: %s;",
            name,
            publication,
            fix,
        )

    def _follow(self, oid: int, *, born: bool) -> None:
        self.followed.add(oid)
        if self._reads and not born:
            self.progress.add([oid])
            self.keep_partial()
