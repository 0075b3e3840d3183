"""Configurations of Debezium load: each of its keys is in force, has a word about it, or is refused
with what to do instead.
"""

import pytest

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1.connector_service_pb2_grpc import ConnectorServiceStub
from penstock.api.error.v1 import diagnostic_pb2
from penstock_connector._config import keys_of
from penstock_connector._testcontrol import target_of
from penstock_connector.testing import Testbed
from penstock_databases.cdc.debezium_keys import debezium_key
from penstock_databases.mysql_cdc.config import MysqlCdcConfig
from penstock_databases.mysql_cdc.source import MysqlCdc
from penstock_databases.postgres_cdc.source import PostgresCdcSource
from support.key_tables import load_key_tables

MYSQL_TUTORIAL = {
    "tasks.max": "1",
    "database.hostname": "mysql",
    "database.port": "3306",
    "database.user": "debezium",
    "database.password": "dbz",
    "database.server.id": "184054",
    "topic.prefix": "dbserver1",
    "database.include.list": "inventory",
    "schema.history.internal.kafka.bootstrap.servers": "kafka:9092",
    "schema.history.internal.kafka.topic": "schema-changes.inventory",
}

POSTGRES_TUTORIAL = {
    "tasks.max": "1",
    "database.hostname": "postgres",
    "database.port": "5432",
    "database.user": "postgres",
    "database.password": "postgres",
    "database.dbname": "postgres",
    "topic.prefix": "dbserver1",
    "schema.include.list": "inventory",
    "plugin.name": "pgoutput",
}

PRODUCTION = {
    "snapshot.locking.mode": "minimal",
    "decimal.handling.mode": "precise",
    "time.precision.mode": "adaptive_time_microseconds",
    "binary.handling.mode": "bytes",
    "tombstones.on.delete": "true",
    "max.queue.size": "8192",
    "poll.interval.ms": "500",
    "event.processing.failure.handling.mode": "fail",
    "errors.max.retries": "-1",
    "provide.transaction.metadata": "false",
    "include.schema.changes": "false",
    "skip.messages.without.change": "false",
    "signal.enabled.channels": "source",
    "notification.enabled.channels": "log",
    "topic.naming.strategy": "io.debezium.schema.SchemaTopicNamingStrategy",
}
"""What configurations of Debezium's operators and charts have besides."""


def words(text):
    return text.split()


COMMON = words(
    """
binary.handling.mode connection.validation.timeout.ms custom.metric.tags
event.converting.failure.handling.mode event.processing.failure.handling.mode
executor.shutdown.timeout.ms field.name.adjustment.mode guardrail.collections.limit.action
guardrail.collections.max incremental.snapshot.allow.schema.changes
incremental.snapshot.chunk.size incremental.snapshot.watermarking.strategy max.batch.size
max.queue.size max.queue.size.in.bytes poll.interval.ms post.processors
provide.transaction.metadata query.fetch.size retriable.restart.connector.wait.ms
schema.name.adjustment.mode signal.enabled.channels signal.poll.interval.ms
skip.messages.without.change skipped.operations snapshot.delay.ms snapshot.fetch.size
snapshot.include.collection.list snapshot.locking.mode.custom.name snapshot.max.threads
snapshot.mode.configuration.based.snapshot.data snapshot.mode.configuration.based.start.stream
snapshot.mode.configuration.based.snapshot.on.data.error snapshot.mode.custom.name
snapshot.query.mode
sourceinfo.struct.maker statistics.metrics.enabled streaming.delay.ms tombstones.on.delete
topic.naming.strategy topic.prefix errors.max.retries notification.enabled.channels
openlineage.integration.enabled column.exclude.list column.include.list
column.mask.hash.SHA-256.with.salt.x column.mask.with.12.chars column.propagate.source.type
column.truncate.to.20.chars datatype.propagate.source.type decimal.handling.mode
include.schema.changes include.schema.comments message.key.columns snapshot.lock.timeout.ms
snapshot.select.statement.overrides snapshot.select.statement.overrides.*
snapshot.tables.order.by.row.count table.ignore.builtin
time.precision.mode unavailable.value.placeholder database.hostname database.password
database.port database.query.timeout.ms database.user table.exclude.list table.include.list
snapshot.locking.mode snapshot.mode converters heartbeat.interval.ms topic.delimiter
topic.cache.size topic.heartbeat.prefix topic.transaction signal.data.collection signal.file
signal.kafka.bootstrap.servers signal.kafka.groupId signal.kafka.poll.timeout.ms
signal.kafka.topic signal.consumer.* signal.consumer.sasl.password
signal.consumer.ssl.key.password
"""
)

MYSQL = words(
    """
database.ssl.mode database.jdbc.driver database.protocol bigint.unsigned.handling.mode
binlog.buffer.size connect.keep.alive connect.keep.alive.interval.ms connect.timeout.ms
database.initial.statements database.server.id database.server.id.offset database.ssl.keystore
database.ssl.keystore.password database.ssl.truststore database.ssl.truststore.password
enable.time.adjuster event.deserialization.failure.handling.mode gtid.source.excludes
gtid.source.filter.dml.events gtid.source.includes include.query
inconsistent.schema.handling.mode min.row.count.to.stream.results read.only
use.nongraceful.disconnect database.exclude.list database.include.list
schema.history.internal.kafka.topic database.history.kafka.topic database.server.name
database.whitelist driver.useSSL
"""
)

POSTGRES = words(
    """
flush.lsn.source hstore.handling.mode include.unknown.datatypes interval.handling.mode
lsn.flush.mode message.prefix.exclude.list message.prefix.include.list offset.mismatch.strategy
plugin.name publication.autocreate.mode publication.name publish.via.partition.root read.only
replica.identity.autoset.values schema.refresh.mode slot.drop.on.stop slot.failover
slot.max.retries slot.name slot.retry.delay.ms slot.stream.params snapshot.isolation.mode
status.update.interval.ms xmin.fetch.interval.ms database.sslcert database.sslkey
database.sslmode database.sslrootcert database.tcpKeepAlive database.dbname schema.exclude.list
schema.include.list
"""
)


def findings(kind, config):
    """The diagnostics of a configuration, by key."""
    request = pb.ValidateConfigRequest(target=target_of(kind, config))
    with Testbed(kind) as bed:
        stub = ConnectorServiceStub(bed.channel)
        response = stub.ValidateConfig(request, metadata=bed.metadata, timeout=60)
    found = {one.name: list(one.diagnostics) for one in response.values if one.diagnostics}
    assert not response.diagnostics, response.diagnostics
    return found


def errors(found):
    error = diagnostic_pb2.SEVERITY_ERROR
    return {name for name, every in found.items() for one in every if one.severity == error}


@pytest.mark.parametrize(
    ("kind", "tutorial"), [(MysqlCdc, MYSQL_TUTORIAL), (PostgresCdcSource, POSTGRES_TUTORIAL)]
)
def test_the_tutorials_load_and_every_key_without_effect_says_why(kind, tutorial):
    own = {name: value for name, value in tutorial.items() if name != "tasks.max"}
    found = findings(kind, {**own, **PRODUCTION})
    assert errors(found) == set()
    warned = {name: every[0].message for name, every in found.items()}
    assert "takes no locks" in warned["snapshot.locking.mode"]
    assert "tombstone" in warned["tombstones.on.delete"]
    for silent in (
        "decimal.handling.mode",
        "topic.naming.strategy",
        "include.schema.changes",
        "skip.messages.without.change",
        "signal.enabled.channels",
    ):
        assert silent not in warned, "what the value says is so"


@pytest.mark.parametrize(("kind", "names"), [(MysqlCdc, MYSQL), (PostgresCdcSource, POSTGRES)])
def test_every_documented_key_has_an_answer(kind, names):
    own = keys_of(kind.config_type)
    for name in [*COMMON, *names]:
        found = debezium_key(name, "some value")
        assert name in own or found is not None, f"{name} is unknown"
        if found is not None and found.refused:
            assert found.fix, name


@pytest.mark.parametrize(("kind", "names"), [(MysqlCdc, MYSQL), (PostgresCdcSource, POSTGRES)])
def test_the_page_shows_all_keys_of_debezium_that_are_in_force_and_no_others(kind, names):
    shown = {key.name for key in load_key_tables().keys_in_force(kind.name)}
    assert shown == keys_of(kind.config_type).keys() & {*COMMON, *names}


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("snapshot.query.mode", "custom", "statement.overrides"),
        ("column.mask.hash.SHA-256.with.salt.x", "shop.t.c", "MaskField"),
        ("database.server.name", "s", "topic.prefix"),
        ("topic.delimiter", "_", "Write ."),
    ],
)
def test_what_would_give_other_rows_is_refused_with_a_way_out(name, value, fix):
    own = {key: value for key, value in MYSQL_TUTORIAL.items() if key != "tasks.max"}
    found = findings(MysqlCdc, {**own, name: value})
    assert errors(found) == {name}
    assert found[name][0].code == "config.not_supported"
    assert fix in found[name][0].fix


def test_a_misspelt_key_is_still_an_error():
    own = {key: value for key, value in MYSQL_TUTORIAL.items() if key != "tasks.max"}
    found = findings(MysqlCdc, {**own, "table.include.lst": "a.b"})
    assert found["table.include.lst"][0].code == "config.unknown_key"


@pytest.mark.parametrize("name", ["tombstones.on.delete", "provide.transaction.metadata"])
def test_keys_of_envelopes_say_so_where_rows_have_none(name):
    own = {key: value for key, value in MYSQL_TUTORIAL.items() if key != "tasks.max"}
    found = findings(MysqlCdc, {**own, name: "true"})
    assert "output.format=debezium" in found[name][0].message
    assert name not in findings(MysqlCdc, {**own, name: "true", "output.format": "debezium"})
    assert name not in findings(MysqlCdc, {**own, name: "false"})


MODE = "snapshot.mode"
BASED = "snapshot.mode.configuration.based"


def of_mode(kind, mode, **based):
    tutorial = MYSQL_TUTORIAL if kind is MysqlCdc else POSTGRES_TUTORIAL
    own = {name: value for name, value in tutorial.items() if name != "tasks.max"}
    keys = {f"{BASED}.{name.replace('_', '.')}": value for name, value in based.items()}
    return findings(kind, {**own, MODE: mode, **keys})


@pytest.mark.parametrize("kind", [MysqlCdc, PostgresCdcSource])
@pytest.mark.parametrize("mode", ["recovery", "schema_only_recovery"])
def test_a_mode_that_restores_schemas_says_that_there_are_none_to_restore(kind, mode):
    (found,) = of_mode(kind, mode)[MODE]
    assert found.severity == diagnostic_pb2.SEVERITY_WARNING
    assert "as with no_data" in found.message


@pytest.mark.parametrize("kind", [MysqlCdc, PostgresCdcSource])
@pytest.mark.parametrize(
    "mode",
    ["initial", "initial_only", "when_needed", "always", "never", "no_data", "schema_only",
     "exported"],
)  # fmt: skip
def test_every_other_mode_of_debezium_is_in_force(kind, mode):
    assert MODE not in of_mode(kind, mode)


@pytest.mark.parametrize("kind", [MysqlCdc, PostgresCdcSource])
def test_a_mode_of_java_classes_is_refused_with_the_modes_that_there_are(kind):
    (found,) = of_mode(kind, "custom")[MODE]
    assert found.code == "config.not_supported"
    assert "configuration_based" in found.fix
    assert "when_needed" in found.fix


def test_the_keys_of_a_mode_say_so_where_it_is_another_one_or_reads_nothing():
    found = of_mode(MysqlCdc, "initial", snapshot_data="true", snapshot_schema="true")
    assert "is initial" in found[f"{BASED}.snapshot.data"][0].message
    assert "history of schemas" in found[f"{BASED}.snapshot.schema"][0].message
    assert not errors(found)
    (nothing,) = of_mode(MysqlCdc, "configuration_based", snapshot_on_data_error="true")[MODE]
    assert nothing.code == "config.invalid_value"
    assert f"{BASED}.start.stream=true" in nothing.fix


@pytest.mark.parametrize(
    ("keys", "reads", "again", "lost", "only"),
    [
        (("snapshot_data", "start_stream"), True, True, False, False),
        (("snapshot_data",), True, True, False, True),
        (("start_stream",), False, False, False, False),
        (("start_stream", "snapshot_on_data_error"), False, False, True, False),
    ],
    ids=["both", "data", "stream", "on-error"],
)
def test_what_the_keys_of_a_mode_mean(keys, reads, again, lost, only):
    based = {f"snapshot_mode_configuration_based_{name}": True for name in keys}
    config = MysqlCdcConfig(database_hostname="h", snapshot_mode="configuration_based", **based)
    found = (
        config.reads_tables, config.reads_at_every_start, config.reads_when_lost,
        config.only_snapshot,
    )  # fmt: skip
    assert found == (reads, again, lost, only)
    assert config.starts_anew == lost


@pytest.mark.parametrize("kind", [MysqlCdc, PostgresCdcSource])
def test_a_form_offers_only_modes_that_are_taken(kind):
    def offered(**values):
        return set(kind.config_type.key_hints(values)[MODE].recommended_values)

    alone = offered()
    assert alone.isdisjoint({"custom", "configuration_based"})
    for mode in alone:
        assert not errors(of_mode(kind, mode))
    based = {f"{BASED}.start.stream": "true"}
    assert offered(**based) == alone | {"configuration_based"}
    assert not errors(of_mode(kind, "configuration_based", start_stream="true"))
