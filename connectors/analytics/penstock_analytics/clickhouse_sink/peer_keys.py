"""Keys of ClickHouse's sink for Kafka Connect that have no effect here, or would be missed. Pure.

After `ClickHouseSinkConfig` of https://github.com/ClickHouse/clickhouse-kafka-connect. The keys
that have an effect are in `config`.
"""

from __future__ import annotations

from typing import Final

from penstock_connector import CompatibilityKey
from penstock_connector.envelopes import UNWRAP

_OFF: Final = frozenset({"", "false", "0", "none"})

_TOGETHER: Final = (
    "`flush.rows` and `flush.interval` of the connector decide how many rows come together"
)
_KEEPER: Final = (
    "how far a task is, is in the table `penstock_commits` of `database`, not in Keeper"
)
_COMPARED: Final = "rows are always compared with the columns, and misfits are dead letters"

_WITHOUT_EFFECT: Final = {
    "tableRefreshInterval": "a table is looked at again when its server says that it has changed",
    "bypassRowBinary": "rows are always sent as Arrow",
    "insertFormat": "rows are always sent as Arrow",
    "zkPath": _KEEPER,
    "zkDatabase": _KEEPER,
    "client_version": "there is one client, plain HTTP",
    "tolerateStateMismatch": "offsets are in the commit row, and in no second place",
    "bypassSchemaValidation": _COMPARED,
    "bypassFieldCleanup": _COMPARED,
    "ignorePartitionsWhenBatching": "a transaction has the rows of all partitions anyway",
    "bufferCount": _TOGETHER,
    "bufferFlushTime": _TOGETHER,
    "clickhouseClientInsertTimeoutMs": "`timeoutSeconds` is the deadline of an insert, too",
    "reportInsertedOffsets": "only the offsets of rows that are there are stored anyway",
    "auto.evolve.ddl.refresh.retries": "`max.retries` counts for that, too",
}

_REFUSED: Final = {
    "jdbcConnectionProperties": (
        "there is no JDBC driver",
        "Leave it out; see `ssl`, `ssl.ca.file`, `timeoutSeconds` and `clickhouseSettings`.",
    ),
    "suppressTableExistenceException": (
        "rows whose table is missing would be lost",
        "Leave it out, and set `auto.create=true`, or leave the topic out.",
    ),
    "customInsertFormat": (
        "texts are not passed on unread: rows have columns",
        "Leave it out, and read topics with a `value.converter` (JsonConverter) at the source.",
    ),
    "dateTimeFormats": (
        "texts are not read as dates by a pattern",
        "Leave it out, and cast the field with the transform TimestampConverter.",
    ),
    "keeperOnCluster": (
        "commit rows are on one server, and are not replicated by this connector",
        "Leave it out, and name one replica in `hostname`.",
    ),
    "clusterName": (
        "no statement is run ON CLUSTER",
        "Leave it out and make tables by hand, with `auto.create=false` and `auto.evolve=false`.",
    ),
    "debeziumCDCEnabled": (
        "envelopes are opened by a transform",
        f"Leave it out, set `insert.mode=upsert` and `delete.enabled=true`. {UNWRAP}",
    ),
}


def peer_key(name: str, value: str) -> CompatibilityKey | None:
    """Return what becomes of a key of ClickHouse's own sink; None when it has no such key."""
    off = value.strip().lower() in _OFF
    if name in _WITHOUT_EFFECT:
        return CompatibilityKey("" if off else _WITHOUT_EFFECT[name])
    if name in _REFUSED:
        why, fix = _REFUSED[name]
        return CompatibilityKey() if off else CompatibilityKey(why, fix, refused=True)
    return None
