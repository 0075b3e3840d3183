"""Write connectors for Penstock in Python.

Subclass `Source`, `Sink` or `TransactionalSink`, describe the configuration as a frozen dataclass
with `key`, and end the module with `serve(...)`. The README is a connector in ten minutes.

- `Source`, `Batch`, `BadRow`, `Partition`: reading; `RawRow`: what is read again; `Dataset`: what
  can be read; `Monitor`: partitions that appear while it runs; `PartitionRange`, `divide_range`:
  those that nobody enumerates
- `Sink`: writing at least once; `TransactionalSink`, `Staging`, `PreparedTxn`: exactly once;
  `Refused`, `FailedRowsError`: rows that can never be written
- `Transform`, `Transformed`: changing rows on their way; `Converter`: bytes to rows and back
- `key`: configuration keys; `KeyHint`: how forms show them; `Pattern`: those that mean names by a
  regular expression
- `penstock_connector.tables`: a kit for sinks of tables; `penstock_connector.staging`: rows that
  wait for their transaction, in memory and files
- `penstock_connector.messages`: rows ↔ messages of brokers, by converters;
  `penstock_connector.dead_letters`: dead letters as the messages that they were
- `penstock_connector.instants`: times that people write instead of offsets
- `penstock_connector.connection`: the keys of a connection, and calls that are made again
- `penstock_connector.reach`: folders and hosts that a node lets a connector reach
- `penstock_values.decimals`: numbers of others as decimals, exactly
- `penstock_connector.addresses`: sockets that lead to no address inside, whoever names it
- `ConnectorError` and its subclasses: what users can meet
- `serve`: `main()` of a plugin; `penstock_connector.testing`: the wire in a test
- `trace_parent`: the trace that a call of the host is a part of
"""

from penstock_connector._config import CompatibilityKey, KeyHint, key
from penstock_connector._connector import ApplyAction, Connector, NoConfig
from penstock_connector._errors import (
    AuthError,
    ConfigError,
    ConnectorError,
    DataError,
    FencedError,
    OffsetLostError,
    RetriableError,
    SchemaError,
)
from penstock_connector._monitor import Monitor
from penstock_connector._pattern import Pattern
from penstock_connector._serve import serve
from penstock_connector._sink import FailedRowsError, Refused, Sink, Staging, TransactionalSink
from penstock_connector._source import BadRow, Batch, Dataset, RawRow, Source
from penstock_connector._tracing import trace_parent
from penstock_connector._transform import Converter, Transform, Transformed
from penstock_connector._values import CommitMode, Op, Partition, PreparedTxn
from penstock_values.identity import canonical_json, partition_id
from penstock_values.partition_ranges import PartitionRange, divide_range

__all__ = [
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
