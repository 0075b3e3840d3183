"""What a connector's author may import is exactly this; a change here is a change of the SDK."""

import penstock_connector
import penstock_kit.testing

CONNECTOR = [
    "ApplyAction",
    "AuthError",
    "BadRow",
    "Batch",
    "CommitMode",
    "CompatibilityKey",
    "ConfigError",
    "Connector",
    "ConnectorError",
    "Converter",
    "DataError",
    "Dataset",
    "FailedRowsError",
    "FencedError",
    "KeyHint",
    "Monitor",
    "NoConfig",
    "OffsetLostError",
    "Op",
    "Partition",
    "PartitionRange",
    "Pattern",
    "PreparedTxn",
    "RawRow",
    "Refused",
    "RetriableError",
    "SchemaError",
    "Sink",
    "Source",
    "Staging",
    "TransactionalSink",
    "Transform",
    "Transformed",
    "canonical_json",
    "divide_range",
    "key",
    "partition_id",
    "serve",
    "trace_parent",
]


def test_the_sdk_exports_exactly_these():
    assert sorted(penstock_connector.__all__) == CONNECTOR


def test_every_exported_name_is_there_and_has_its_meaning_beside_it():
    for package in (penstock_connector, penstock_kit.testing):
        for name in package.__all__:
            assert getattr(package, name).__doc__, f"{package.__name__}.{name}"
