"""What a host asks a connector beside its tasks, in a test."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
import pyarrow as pa

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.api.connector.v1.connector_service_pb2_grpc import ConnectorServiceStub
from penstock.api.connector.v1.source_service_pb2_grpc import SourceServiceStub
from penstock_connector import _frames
from penstock_connector._connector import ApplyAction, Connector
from penstock_connector._errors import ConnectorError
from penstock_connector._source import Dataset, RawRow, Source
from penstock_connector._testbed import DEADLINE, RemoteError, Testbed
from penstock_connector._values import Partition, partition_from_proto, partition_to_proto
from penstock_values.identity import partition_id


def target_of(kind: type[Connector[Any]], config: Mapping[str, str]) -> pb.Target:
    """Return a connector with a configuration, as calls name it."""
    return pb.Target(connector=kind.name, instance="test", config=config)


def validate(kind: type[Connector[Any]], config: Mapping[str, str]) -> list[str]:
    """Return the codes of all that is wrong with a configuration."""
    with Testbed(kind) as bed, as_remote_error():
        answer = ConnectorServiceStub(bed.channel).ValidateConfig(
            pb.ValidateConfigRequest(target=target_of(kind, config)),
            metadata=bed.metadata,
            timeout=DEADLINE,
        )
    found = [*answer.diagnostics, *(d for value in answer.values for d in value.diagnostics)]
    return [diagnostic.code for diagnostic in found]


def alter_offsets(
    kind: type[Connector[Any]],
    config: Mapping[str, str],
    wanted: Sequence[Partition],
    *,
    dry_run: bool = False,
    bed: Testbed | None = None,
) -> list[Partition]:
    """Return the offsets that are stored when a person wants these."""
    if bed is None:
        with Testbed(kind) as own:
            return alter_offsets(kind, config, wanted, dry_run=dry_run, bed=own)
    request = pb.AlterOffsetsRequest(
        target=target_of(kind, config),
        partitions=map(partition_to_proto, wanted),
        dry_run=dry_run,
    )
    stub = ConnectorServiceStub(bed.channel)
    with as_remote_error():
        answer = stub.AlterOffsets(request, metadata=bed.metadata, timeout=DEADLINE)
    return [partition_from_proto(partition) for partition in answer.partitions]


def apply_action(
    kind: type[Connector[Any]],
    config: Mapping[str, str],
    action: ApplyAction,
    *,
    last: Mapping[str, str] | None = None,
    bed: Testbed | None = None,
) -> tuple[list[str], list[str]]:
    """Return what a connector did outside, and the codes of its warnings. `last` is the
    configuration that was applied last.
    """
    if bed is None:
        with Testbed(kind) as own:
            return apply_action(kind, config, action, last=last, bed=own)
    request = pb.ApplyRequest(
        target=target_of(kind, config),
        action=int(action),  # type: ignore[arg-type] # enums share numbers
        last_applied=None if last is None else target_of(kind, last),
    )
    stub = ConnectorServiceStub(bed.channel)
    with as_remote_error():
        answer = stub.Apply(request, metadata=bed.metadata, timeout=DEADLINE)
    return list(answer.actions), [found.code for found in answer.diagnostics]


def send_signal(
    kind: type[Source[Any]], config: Mapping[str, str], signal: Mapping[str, Any]
) -> str:
    """Return where a source wrote a signal: `id`, `type`, and `data` as an object."""
    request = pb.SignalRequest(
        target=target_of(kind, config),
        id=signal["id"],
        type=signal["type"],
        data=json.dumps(signal.get("data") or {}),
    )
    with Testbed(kind) as bed, as_remote_error():
        answer = ConnectorServiceStub(bed.channel).Signal(
            request, metadata=bed.metadata, timeout=DEADLINE
        )
        return answer.written_to


def plan(
    kind: type[Source[Any]],
    config: Mapping[str, str],
    *,
    max_tasks: int = 1,
    bed: Testbed | None = None,
) -> list[Partition]:
    """Return the partitions that a source plans; on a server of its own when `bed` is None."""
    if bed is None:
        with Testbed(kind) as own:
            return plan(kind, config, max_tasks=max_tasks, bed=own)
    request = pb.PlanRequest(target=target_of(kind, config), max_tasks=max_tasks)
    stub = ConnectorServiceStub(bed.channel)
    with as_remote_error():
        answer = stub.Plan(request, metadata=bed.metadata, timeout=DEADLINE)
    return [partition_from_proto(partition) for partition in answer.partitions]


def list_datasets(kind: type[Source[Any]], config: Mapping[str, str]) -> list[Dataset]:
    """Return the datasets that a source lists; a problem is a `ConnectorError` with its code."""
    request = pb.ListDatasetsRequest(target=target_of(kind, config))
    with Testbed(kind) as bed, as_remote_error():
        answers = ConnectorServiceStub(bed.channel).ListDatasets(
            request, metadata=bed.metadata, timeout=DEADLINE
        )
        return [_dataset_from_proto(answer.dataset) for answer in answers]


def parse_rows(
    kind: type[Source[Any]], config: Mapping[str, str], rows: Sequence[RawRow]
) -> list[pa.RecordBatch | ConnectorError]:
    """Return what a source makes of the bytes of rows: of each a batch with one row, or an error
    with its code.
    """
    request = source_pb.ParseRowsRequest(
        target=target_of(kind, config),
        rows=[
            source_pb.RawRow(
                partition_id=partition_id(row.partition),
                dataset=row.dataset,
                raw=row.raw,
                set_json=json.dumps(row.changes) if row.changes else "",
            )
            for row in rows
        ],
    )
    with Testbed(kind) as bed, as_remote_error():
        answer = SourceServiceStub(bed.channel).ParseRows(
            request, metadata=bed.metadata, timeout=DEADLINE
        )
        return [_parsed_from_proto(one) for one in answer.rows]


def _parsed_from_proto(message: source_pb.ParsedRow) -> pa.RecordBatch | ConnectorError:
    if message.HasField("reason"):
        found = message.reason
        return ConnectorError(
            found.code, found.message, fix=found.fix, config_path=found.config_path
        )
    return _frames.decode_rows(message.row.data, _frames.decode_schema(message.schema.arrow_schema))


def _dataset_from_proto(message: pb.Dataset) -> Dataset:
    schema = None
    if message.arrow_schema:
        schema = pa.ipc.read_schema(pa.py_buffer(message.arrow_schema))
    found = message.problem
    return Dataset(
        message.name,
        message.dataset,
        schema,
        tuple(message.key_columns),
        message.selected,
        ConnectorError(found.code, found.message) if message.HasField("problem") else None,
    )


@contextmanager
def as_remote_error() -> Iterator[None]:
    """Raise what the connector said as what it is.

    Raises:
        RemoteError: the call failed.
    """
    try:
        yield
    except grpc.RpcError as error:
        raise RemoteError(error) from error
