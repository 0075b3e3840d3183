"""Keys of Debezium's MySQL, MariaDB and PostgreSQL connectors that the two CDC sources do not have.

A configuration of Debezium loads as it is. A key whose meaning does not exist here is taken with a
warning that says why. A key that would change which rows come, or what is in them, is refused: its
configuration would otherwise give other rows than it says.

The names are those of Debezium 3 (`CommonConnectorConfig`, `RelationalDatabaseConnectorConfig`,
`BinlogConnectorConfig`, `MySqlConnectorConfig`, `PostgresConnectorConfig`) and of its release 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from penstock_connector import CompatibilityKey

_Found = TypeVar("_Found")

_LOCKS: Final = "a snapshot takes no locks: its chunks are compared with the log"
_QUEUES: Final = "the credit of the task bounds what is read ahead (`credit.bytes`)"
_RETRIES: Final = "the worker restarts tasks (`restart.max`)"
_TOLERANCE: Final = "`errors.tolerance` says what becomes of rows that fail"
_HISTORY: Final = "the log has its columns, and no history of schemas is kept"
_TYPES: Final = "columns have types of their own, which say all of this"
_NETWORK: Final = "the connection is another one than Java's"
_NOTES: Final = "what happens is in the log, the metrics and the state of the connector"
_SIGNALS: Final = "the place in the topic is in the offset, and no group of consumers has it"
_NAMES: Final = "names stay as they are in the database; converters adjust them where they must"

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "advanced.metrics.enable": _NOTES,
    "bigint.unsigned.handling.mode": "unsigned numbers come whole",
    "binlog.buffer.size": _NETWORK,
    "binlog.net.read.timeout": _NETWORK,
    "binlog.net.write.timeout": _NETWORK,
    "column.propagate.source.type": _TYPES,
    "connect.keep.alive": _NETWORK,
    "connect.keep.alive.interval.ms": _NETWORK,
    "connect.timeout.ms": _NETWORK,
    "connection.validation.timeout.ms": _NETWORK,
    "custom.metric.tags": _NOTES,
    "database.connectionTimeZone": _NETWORK,
    "database.query.timeout.ms": _NETWORK,
    "database.server.id.offset": "`database.server.id` has the number; 0 draws one",
    "database.serverTimezone": _NETWORK,
    "database.tcpKeepAlive": _NETWORK,
    "database.jdbc.driver": _NETWORK,
    "database.protocol": _NETWORK,
    "datatype.propagate.source.type": _TYPES,
    "ddl.parser.type": "statements that change tables are told by the log's own columns",
    "enable.time.adjuster": "years of two digits come as the server gives them",
    "errors.max.retries": _RETRIES,
    "event.converting.failure.handling.mode": _TOLERANCE,
    "event.deserialization.failure.handling.mode": _TOLERANCE,
    "event.processing.failure.handling.mode": _TOLERANCE,
    "executor.shutdown.timeout.ms": _RETRIES,
    "extended.headers.enabled": _NOTES,
    "field.name.adjustment.mode": _NAMES,
    "flush.lsn.source": "the slot moves with what is committed",
    "gtid.ignore.on.recovery": "a snapshot that broke off goes on where it was",
    "guardrail.collections.limit.action": _QUEUES,
    "guardrail.collections.max": _QUEUES,
    "heartbeat.topics.prefix": "no rows tell of a heartbeat",
    "heartbeat.action.query": "the offset moves by `heartbeat.interval.ms` without a statement",
    "include.query": "the log has rows, not statements",
    "include.schema.changes": "the log has no statements that change tables",
    "include.schema.comments": _TYPES,
    "include.unknown.datatypes": "types that are not known come as text",
    "inconsistent.schema.handling.mode": _TOLERANCE,
    "incremental.snapshot.allow.schema.changes": "tables may change while they are read",
    "incremental.snapshot.chunk.size": "`snapshot.fetch.size` has the rows of a chunk",
    "incremental.snapshot.watermarking.strategy": _LOCKS,
    "legacy.snapshot.max.threads": "`snapshot.parallelism` has the number",
    "log.position.check.enable": "the position is always checked",
    "lsn.flush.mode": "the slot moves with what is committed",
    "lsn.flush.timeout.action": "the slot moves with what is committed",
    "lsn.flush.timeout.ms": "the slot moves with what is committed",
    "max.batch.size": _QUEUES,
    "max.queue.size": _QUEUES,
    "max.queue.size.in.bytes": _QUEUES,
    "message.prefix.exclude.list": "messages of the log that are no rows are not given",
    "message.prefix.include.list": "messages of the log that are no rows are not given",
    "min.row.count.to.stream.results": "tables are read in chunks",
    "offset.activity.monitor.interval.ms": _NOTES,
    "offset.flush.interval.ms": "offsets are stored with every micro-batch",
    "offset.flush.timeout.ms": "offsets are stored with every micro-batch",
    "offset.mismatch.strategy": "the position is always checked",
    "poll.dispatch.interval.ms": _QUEUES,
    "poll.interval.ms": "rows come as the server sends them",
    "query.fetch.size": "`snapshot.fetch.size` has the rows of a chunk",
    "queue.provider.type": _QUEUES,
    "read.only": "nothing is written to the database but to the tables of signals",
    "resolve.create.table.like.schema": _HISTORY,
    "retriable.restart.connector.wait.ms": _RETRIES,
    "schema.history.internal": _HISTORY,
    "schema.name.adjustment.mode": _NAMES,
    "schema.refresh.mode": _HISTORY,
    "signal.kafka.groupId": _SIGNALS,
    "signal.kafka.poll.timeout.ms": "messages are taken without a wait",
    "skip.messages.without.change": "rows that did not change come, too",
    "slot.max.retries": "`connection.attempts` has the number",
    "slot.retry.delay.ms": "`connection.backoff.ms` has the time",
    "snapshot.delay.ms": "a snapshot begins at once",
    "snapshot.isolation.mode": _LOCKS,
    "snapshot.lock.timeout.ms": _LOCKS,
    "snapshot.locking.mode": _LOCKS,
    "snapshot.locking.mode.custom.name": _LOCKS,
    "snapshot.max.threads": "`snapshot.parallelism` has the number",
    "snapshot.max.threads.multiplier": "`snapshot.parallelism` has the number",
    "snapshot.mode.configuration.based.snapshot.on.schema.error": _HISTORY,
    "snapshot.mode.configuration.based.snapshot.schema": _HISTORY,
    "snapshot.mode.custom.name": "`snapshot.mode` has no mode of Java classes",
    "snapshot.scan.all.columns.force": _TYPES,
    "snapshot.tables.order.by.row.count": "several tables are read at once",
    "statistics.metrics.enabled": _NOTES,
    "status.update.interval.ms": _NETWORK,
    "streaming.delay.ms": "the log is followed at once",
    "topic.cache.size": _NETWORK,
    "topic.heartbeat.prefix": "no rows tell of a heartbeat",
    "use.nongraceful.disconnect": _NETWORK,
    "xmin.fetch.interval.ms": _NOTES,
}

WITHOUT_EFFECT_BELOW: Final[Mapping[str, str]] = {
    "database.history.": _HISTORY,
    "driver.": _NETWORK,
    "internal.": "it is a key of Debezium's own tests",
    "notification.": _NOTES,
    "openlineage.": _NOTES,
    "schema.history.internal.": _HISTORY,
}
"""Keys that begin so."""

_MASK: Final = "Use the transform MaskField, or column.exclude.list where there is one."
_CAST: Final = "Use the transform Cast."
REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    "converters": ("it names classes of Java that change values", _CAST),
    "post.processors": ("it names classes of Java that change rows", "Use transforms."),
    "database.initial.statements": ("statements of the session change what is read", ""),
    "gtid.source.excludes": ("it would leave rows out", "Filter rows by a transform."),
    "gtid.source.filter.dml.events": ("it would leave rows out", "Filter rows by a transform."),
    "gtid.source.includes": ("it would leave rows out", "Filter rows by a transform."),
    "replica.identity.autoset.values": (
        "tables are not altered here",
        "Run `ALTER TABLE … REPLICA IDENTITY …` once.",
    ),
    "slot.stream.params": ("parameters of the decoder change what comes", ""),
    "snapshot.include.collection.list": (
        "all wanted tables are read first",
        "Name them in `table.include.list`, and the others in a connector of their own.",
    ),
    "database.server.name": ("it is a key of Debezium 1", "Write `topic.prefix`."),
    "database.whitelist": ("it is a key of Debezium 1", "Write `database.include.list`."),
    "database.blacklist": ("it is a key of Debezium 1", "Write `database.exclude.list`."),
    "schema.whitelist": ("it is a key of Debezium 1", "Write `schema.include.list`."),
    "schema.blacklist": ("it is a key of Debezium 1", "Write `schema.exclude.list`."),
    "table.whitelist": ("it is a key of Debezium 1", "Write `table.include.list`."),
    "table.blacklist": ("it is a key of Debezium 1", "Write `table.exclude.list`."),
    "column.whitelist": ("it is a key of Debezium 1", "Write `column.include.list`."),
    "column.blacklist": ("it is a key of Debezium 1", "Write `column.exclude.list`."),
}
"""Why, and what to do instead."""

REFUSED_BELOW: Final[Mapping[str, tuple[str, str]]] = {
    "column.mask.": ("columns are not masked here", _MASK),
    "column.truncate.": ("columns are not cut here", _MASK),
    "database.ssl.": (
        "keys and certificates are not read from Java's stores here",
        "Set `connection.url` with the files of certificates.",
    ),
    "snapshot.query.mode": (
        "statements are named by tables",
        "Set `snapshot.select.statement.overrides`.",
    ),
}

AS_HERE: Final[Mapping[str, frozenset[str]]] = {
    "bigint.unsigned.handling.mode": frozenset({"precise", "long"}),
    "field.name.adjustment.mode": frozenset({"none"}),
    "hstore.handling.mode": frozenset({"json"}),
    "interval.handling.mode": frozenset({"string"}),
    "schema.name.adjustment.mode": frozenset({"none"}),
    "snapshot.locking.mode": frozenset({"none"}),
    "sourceinfo.struct.maker": frozenset(),
    "table.ignore.builtin": frozenset({"true"}),
    "topic.delimiter": frozenset({"."}),
    "topic.naming.strategy": frozenset(
        {
            "io.debezium.schema.DefaultTopicNamingStrategy",
            "io.debezium.schema.SchemaTopicNamingStrategy",
        }
    ),
    "unavailable.value.placeholder": frozenset(),
    "publish.via.partition.root": frozenset({"false"}),
    "include.schema.changes": frozenset({"false"}),
    "include.schema.comments": frozenset({"false"}),
    "skip.messages.without.change": frozenset({"false"}),
    "include.query": frozenset({"false"}),
    "read.only": frozenset({"false"}),
    "slot.failover": frozenset({"false"}),
    "snapshot.query.mode": frozenset({"select_all"}),
}
"""Values that say what is so anyway. Keys that have no reason above are refused with others."""


def debezium_key(name: str, value: str) -> CompatibilityKey | None:
    """Return what becomes of a key of Debezium; None for a key that is not one of its."""
    same = AS_HERE.get(name)
    if same is not None and value.strip().lower() in {one.lower() for one in same}:
        return CompatibilityKey()
    if (why := WITHOUT_EFFECT.get(name) or _below(name, WITHOUT_EFFECT_BELOW)) is not None:
        return CompatibilityKey(why)
    refused = REFUSED.get(name) or _below(name, REFUSED_BELOW)
    if refused is not None:
        return CompatibilityKey(refused[0], fix=refused[1] or "Remove it.", refused=True)
    if same is None:
        return None
    valid = ", ".join(sorted(same))
    return CompatibilityKey(
        f"with {value[:100]!r} it would do what this source does not do",
        fix=f"Write {valid}, or remove it." if valid else "Remove it.",
        refused=True,
    )


def _below(name: str, keys: Mapping[str, _Found]) -> _Found | None:
    return next((found for start, found in keys.items() if name.startswith(start)), None)
