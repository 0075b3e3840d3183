"""Keys that the sources of changes share: the form of rows, their keys, what a snapshot reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import ClassVar

import pyarrow as pa

from penstock_connector import ConfigError, key
from penstock_databases.cdc.envelopes import FORMATS, Envelopes, check_format
from penstock_databases.cdc.message_keys import MessageKeys
from penstock_databases.cdc.row_adjustments import OPERATIONS
from penstock_databases.cdc.snapshot_modes import SnapshotModeKeys
from penstock_databases.cdc.snapshot_statements import SnapshotStatement, read_statements
from penstock_databases.cdc.time_precision import MODES
from penstock_databases.cdc.transactions import with_transactions


@dataclass(frozen=True)
class ChangeKeys(SnapshotModeKeys):
    """What rows of changes look like."""

    names_ignore_case: ClassVar[bool] = False

    topic_prefix: str = key(
        "",
        doc="Put before datasets: `prefix.database.table`, of PostgreSQL `prefix.schema.table`.",
    )
    output_format: str = key(
        "penstock",
        choices=FORMATS,
        doc="`penstock`: rows of tables, with `__op`; `debezium`: envelopes with `before`, "
        "`after`, `source`, `op`.",
    )
    tombstones_on_delete: bool | None = key(
        None,
        doc="With `output.format=debezium`: whether a delete is followed by a row without a value "
        "(default `true`).",
    )
    provide_transaction_metadata: bool = key(
        False,
        doc="With `output.format=debezium`: give changes the block `transaction` with `id`, "
        "`total_order`, `data_collection_order`, and rows that say where transactions begin and "
        "end.",
    )
    topic_transaction: str = key(
        "transaction",
        doc="With `provide.transaction.metadata`: the dataset of the begins and ends of "
        "transactions is `<topic.prefix>.` and this.",
    )
    skipped_operations: tuple[str, ...] = key(
        (),
        type="list",
        choices=OPERATIONS,
        doc="Operations that give no rows: c(reate), u(pdate), d(elete), t(runcate). Empty: "
        "`none`, and with `output.format=debezium` `t`.",
    )
    time_precision_mode: str = key(
        "",
        choices=("", *MODES),
        doc="With `output.format=debezium`: dates and times in the types of Debezium's messages. "
        "Empty: dates and timestamps of their own types, times of day as texts.",
    )
    message_key_columns: str = key(
        "",
        doc="Keys of rows in place of primary keys: `table:column,column;table:column`; tables as "
        "regexes of their full names.",
    )
    snapshot_select_statement_overrides: tuple[str, ...] = key(
        (), doc="Full names of tables whose reading gives the rows of a statement only."
    )
    snapshot_select_statements: Mapping[str, str] = key(
        name="snapshot.select.statement.overrides.*",
        doc="The statement of a table: `snapshot.select.statement.overrides.shop.orders=SELECT * "
        "FROM shop.orders WHERE …`.",
    )

    def check_changes(self) -> None:
        """Refuse what contradicts itself.

        Raises:
            ConfigError: `config.missing`, `config.invalid_value`, `config.not_supported`,
                `config.bad_pattern`.
        """
        check_format(self.output_format, self.topic_prefix)
        if not self.topic_transaction:
            raise ConfigError(
                "config.invalid_value",
                "'topic.transaction' is empty: rows about transactions need a dataset",
                fix="Write transaction, or remove the key.",
                config_path="topic.transaction",
            )
        self.check_signals(self.topic_prefix)
        self.check_snapshot_mode()
        self.message_keys  # noqa: B018 - raises for what has another form
        self.snapshot_statements  # noqa: B018 - as above

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and have no effect, and why."""
        unused = {**self.unused_signal_keys(), **self.unused_snapshot_keys()}
        if self.topic_transaction != "transaction" and not self.counts_transactions:
            unused["topic.transaction"] = (
                "no rows tell where transactions begin and end, unless "
                "`provide.transaction.metadata=true` and `output.format=debezium`"
            )
        if self.wraps:
            return unused
        if self.time_precision_mode not in {"", "connect"}:
            unused["time.precision.mode"] = (
                "columns have types of their own unless `output.format=debezium`"
            )
        if self.tombstones_on_delete:
            unused["tombstones.on.delete"] = (
                "a delete is one row unless `output.format=debezium`; on topics of Kafka it is a "
                "tombstone"
            )
        if self.provide_transaction_metadata:
            unused["provide.transaction.metadata"] = (
                "rows tell of transactions only with `output.format=debezium`"
            )
        return unused

    @property
    def wraps(self) -> bool:
        """Whether rows are envelopes."""
        return self.output_format == "debezium"

    @property
    def counts_transactions(self) -> bool:
        """Whether changes have their places in transactions, and these their begins and ends."""
        return self.wraps and self.provide_transaction_metadata

    @property
    def transactions_dataset(self) -> str:
        """The dataset of begins and ends of transactions."""
        return f"{self.topic_prefix}.{self.topic_transaction}"

    def origin_type(self, of_connector: pa.StructType) -> pa.StructType | None:
        """Return the type of what says where a row is from; None: nothing does."""
        if not self.wraps:
            return None
        return (
            with_transactions(of_connector) if self.provide_transaction_metadata else of_connector
        )

    def envelopes(self, connector: str, source: pa.StructType) -> Envelopes:
        """Return what wraps rows.

        Args:
            connector: `source.connector`.
            source: The type of the column that says where a row is from.
        """
        return Envelopes(
            connector,
            self.topic_prefix,
            version("penstock"),
            source,
            tombstones=self.tombstones_on_delete is not False,
            transactions=self.provide_transaction_metadata,
        )

    @property
    def times(self) -> str:
        """How dates and times are given; empty: in types of their own."""
        return self.time_precision_mode if self.wraps else ""

    @property
    def operations_skipped(self) -> tuple[str, ...]:
        """Operations that give no rows. Consumers of Debezium do not expect truncates."""
        return self.skipped_operations or (("t",) if self.wraps else ())

    @cached_property
    def message_keys(self) -> MessageKeys:
        """The keys of rows that are not those of their tables."""
        return MessageKeys.parse(self.message_key_columns, ignore_case=self.names_ignore_case)

    @cached_property
    def snapshot_statements(self) -> Mapping[str, SnapshotStatement]:
        """Statements that are read in place of tables, by their full names."""
        return read_statements(
            self.snapshot_select_statement_overrides, self.snapshot_select_statements or {}
        )
