"""Tables as the log tells of them, each form made ready once."""

from __future__ import annotations

from typing import Final

from penstock_connector.tables.columns import Shape
from penstock_databases.cdc.selection import TableFilter
from penstock_databases.mysql_cdc.config import MysqlCdcConfig
from penstock_databases.mysql_cdc.gathering import Table, batch_schema
from penstock_databases.mysql_cdc.layouts import Server, check_names, layout_of
from penstock_databases.mysql_cdc.origins import ORIGIN_TYPE
from penstock_databases.mysql_cdc.rows import Layout
from penstock_databases.mysql_cdc.tablemap import parse

_MOST: Final = 10_000
"""Forms of tables that are kept. With more, forms are made again when they come again."""


class Tables:
    """Which tables are meant, and how their rows are read."""

    def __init__(self, config: MysqlCdcConfig, server: Server, *, mariadb: bool) -> None:
        self._config = config
        self._server = server
        self._mariadb = mariadb
        self._chosen = config.chosen
        self._signals = config.signals_table
        self._known: dict[bytes, Table | None] = {}
        self._latest: dict[tuple[str, str], Table] = {}
        self._meant: dict[tuple[str, str], bool] = {}

    def meant(self, database: str, table: str) -> bool:
        """Return whether rows of a table are given."""
        name = database, table
        found = self._meant.get(name)
        if found is None:
            found = self._meant[name] = self._chosen.includes(database, table)
        return found

    def of(self, body: bytes) -> Table | None:
        """Return the table of a TABLE_MAP event; None when it is not meant."""
        try:
            return self._known[body]
        except KeyError:
            if len(self._known) >= _MOST:
                self._known.clear()
        size = body[0]
        database = body[1 : 1 + size].decode("utf-8", "replace")
        name = body[3 + size : 3 + size + body[2 + size]].decode("utf-8", "replace")
        table = None
        if self.meant(database, name) or f"{database}.{name}" == self._signals:
            table = self._made(body)
        self._known[body] = table
        return table

    def choose(self, chosen: TableFilter) -> None:
        """Mean other tables from now on."""
        self._chosen = chosen
        self._meant.clear()
        self._known.clear()

    def forget(self) -> None:
        """Forget what the catalog said: a statement changed tables."""
        self._known.clear()

    def _made(self, body: bytes) -> Table:
        told = parse(body, mariadb=self._mariadb)
        layout = layout_of(told, self._server, self._config.target.zero_dates)
        return self._table(told.database, told.table, layout)

    def of_shape(self, found: Shape) -> Table:
        """Return a table as the catalog has it. Its rows in the log are not read by that."""
        fields = tuple(column.field for column in found.columns)
        names = [column.name for column in found.columns]
        layout = Layout(fields, (), tuple(names.index(name) for name in found.key))
        return self._table(found.table.catalog, found.table.name, layout)

    def latest(self, database: str, name: str) -> Table | None:
        """Return a table as its last rows were; as the catalog has it, when there were none."""
        found = self._latest.get((database, name))
        if found is None:
            shape = self._server.shape(database, name)
            found = self.of_shape(shape) if shape else None
        return found

    def _table(self, database: str, name: str, layout: Layout) -> Table:
        config = self._config
        check_names(f"{database}.{name}", layout)
        source = config.origin_type(ORIGIN_TYPE)
        schema = batch_schema(layout.fields, before=config.include_before, source=source)
        names = [field.name for field in layout.fields]
        key = None
        if f"{database}.{name}" != self._signals:
            key = config.message_keys.key_of(f"{database}.{name}", names)
        key_at = None if key is None else tuple(map(names.index, key))
        dataset = config.dataset(database, name)
        table = Table(database, name, dataset, layout, schema, key_at)
        self._latest[database, name] = table
        return table
