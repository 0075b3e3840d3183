"""A converter of another plugin, for connectors whose rows are bytes of messages.

The host starts the converter's process, and says where it is (`penstock_values.converter_process`).
Each part of a batch is one call.

Null messages never reach the plugin: a null stays a null, in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NoReturn

import grpc
import pyarrow as pa
import pyarrow.compute as pc

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import transform_service_pb2 as pb
from penstock.api.connector.v1.transform_service_pb2_grpc import ConverterServiceStub
from penstock.api.error.v1 import diagnostic_pb2
from penstock.api.record.v1 import record_pb2
from penstock_connector import _frames
from penstock_connector._calls import CREDENTIAL_KEY
from penstock_connector._errors import (
    DIAGNOSTIC_KEY,
    ConnectorError,
    DataError,
    RetriableError,
    error_from_diagnostic,
)
from penstock_connector._outcome import Outcome, outcome_of
from penstock_connector._rows import Cut
from penstock_connector._transform import Transformed
from penstock_converters import Decoded, Encoded, Problem, RejectedValue, Run
from penstock_values.converter_process import ConverterProcess

_RAW: Final = pa.schema([("__raw_value", pa.binary())])
_RAW_ID: Final = 0
"""Schema of bytes to decode: fixed by the protocol, so that it is not sent."""

_ROWS_ID: Final = 1


class PluginConverter:
    """A plugin's converter for the keys or the values of topics."""

    takes_structs: ClassVar[bool] = True

    def __init__(self, path: str, process: ConverterProcess, *, is_key: bool) -> None:
        """`path` is the key that names it."""
        self._path, self._process, self._is_key = path, process, is_key
        self._channel: grpc.Channel | None = None

    def decode(self, data: pa.Array, topic: str) -> Decoded:
        """Return each message as one value: a struct of its columns.

        Raises:
            ConnectorError: the converter's, or its process does not answer, or breaks the protocol.
        """
        present = _indices_of_values(data)
        if not present:
            nulls = pa.nulls(len(data))
            return Decoded((Run(pa.field("value", nulls.type), range(len(data)), nulls),))
        messages = _take(data.cast(pa.binary()), present)
        raw = pa.RecordBatch.from_arrays([messages], schema=_RAW)
        parts = list(self._convert(raw, topic, serialize=False))
        rejected = [(present[row], error) for part in parts for row, error in part.rejected]
        rejected_rows = {row for row, _ in rejected}
        runs, begin = [], 0
        for part, after in zip(parts, [*parts[1:], None], strict=True):
            end = present[after.start] if after else len(data)
            place = {present[row]: at for at, row in enumerate(part.kept)}
            rows = [row for row in range(begin, end) if row not in rejected_rows]
            values = part.rows.to_struct_array() if part.rows.num_rows else pa.nulls(0)
            # a null message has no place among the values, and becomes a null where it was
            column = values.take(pa.array([place.get(row) for row in rows], pa.int32()))
            runs.append(Run(pa.field("value", column.type), rows, column))
            begin = end
        return Decoded(tuple(runs), tuple(rejected))

    def encode(self, values: pa.Array, field: pa.Field, topic: str) -> Encoded:
        """Return the bytes of values. A value that is not a struct is sent as the column
        `value`.

        Raises:
            ConnectorError: as `decode`.
        """
        present = _indices_of_values(values)
        kept = _take(values, present)
        if pa.types.is_struct(field.type):
            rows = pa.RecordBatch.from_struct_array(kept)
        else:
            rows = pa.RecordBatch.from_arrays([kept], schema=pa.schema([field.with_name("value")]))
        encoded: list[bytes | None] = [None] * len(values)
        rejected: list[RejectedValue] = []
        for part in self._convert(rows, topic, serialize=True):
            messages = part.rows.column(0).to_pylist() if part.kept else []
            for row, message in zip(part.kept, messages, strict=True):
                encoded[present[row]] = message
            rejected += [(present[row], error) for row, error in part.rejected]
        return Encoded(pa.array(encoded, pa.binary()), tuple(rejected))

    def close(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _convert(self, rows: pa.RecordBatch, topic: str, *, serialize: bool) -> Iterator[_Part]:
        start = 0
        for piece in Cut().apply(rows) if rows.num_rows else ():
            outcome = self._call(piece, topic, serialize=serialize)
            kept = outcome.input_rows or range(piece.num_rows - len(outcome.failed))
            rejected = [(start + row, self._problem(error)) for row, error in outcome.failed]
            yield _Part(start, outcome.rows, [start + row for row in kept], rejected)
            start += piece.num_rows

    def _call(self, piece: pa.RecordBatch, topic: str, *, serialize: bool) -> Outcome:
        """Return what became of the rows of one call."""
        schema_id = _ROWS_ID if serialize else _RAW_ID
        requests = [pb.ConvertRequest(open=self._open(topic, serialize=serialize))]
        if serialize:
            schema = record_pb2.Schema(
                schema_id=schema_id, arrow_schema=_frames.encode_schema(piece.schema)
            )
            requests.append(pb.ConvertRequest(schema=schema))
        requests += [pb.ConvertRequest(batch=frame) for frame in _batch_frames(piece, schema_id)]
        self._channel = self._channel or _dial(self._process)
        credential = self._process.credential
        call = ConverterServiceStub(self._channel).Convert(
            iter(requests),
            metadata=((CREDENTIAL_KEY, credential),) if credential else (),
            timeout=self._process.timeout_s,
        )
        try:
            return _read_outcome(call, piece)
        except grpc.RpcError as error:
            self._fail(error)
        finally:
            call.cancel()

    def _open(self, topic: str, *, serialize: bool) -> pb.ConvertOpen:
        process = self._process
        target = connector_pb.Target(
            connector=process.connector, instance=process.instance, config=dict(process.config)
        )
        return pb.ConvertOpen(target=target, serialize=serialize, key=self._is_key, dataset=topic)

    def _fail(self, error: grpc.RpcError) -> NoReturn:
        """Raise the error of a call that failed."""
        trailing: Any = error.trailing_metadata() or ()
        told = next((value for name, value in trailing if name == DIAGNOSTIC_KEY), None)
        if told is not None:
            diagnostic = diagnostic_pb2.Diagnostic.FromString(told)
            raise self._named(error_from_diagnostic(diagnostic)) from None
        stage = f"plugin.convert ({self._path})"
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise RetriableError(
                "deadline.exceeded",
                f"stage {stage} made no progress for {self._process.timeout_s:g} s",
                fix="Check whether the converter hangs; `stall.timeout` sets the time.",
            ) from None
        kind = RetriableError if error.code() in _MAY_PASS else ConnectorError
        raise kind(
            f"rpc.{error.code().name.lower()}",
            f"stage {stage}: {error.details()}",
            fix="The log of the converter's plugin may say why.",
        ) from None

    def _problem(self, error: ConnectorError) -> Problem:
        """Return why a value was rejected.

        Raises:
            ConnectorError: it is not about the value.
        """
        if not isinstance(error, DataError):
            raise self._named(error)
        return Problem(error.code, error.message, error.fix)

    def _named(self, error: ConnectorError) -> ConnectorError:
        """Return the error with the name that its key has in the connector."""
        if error.config_path:
            error.config_path = f"{self._path}.{error.config_path}"
        return error


_MAY_PASS: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)


def _dial(process: ConverterProcess) -> grpc.Channel:
    """Return a new channel. It connects with the first call."""
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", _frames.MESSAGE_MOST),
        ("grpc.max_send_message_length", _frames.MESSAGE_MOST),
        ("grpc.enable_http_proxy", 0),  # proxies of the environment are for the internet
    ]
    if process.tls is None:
        if process.address.startswith("unix:"):  # gRPC would send the path as the authority
            options.append(("grpc.default_authority", "localhost"))
        return grpc.insecure_channel(process.address, options)
    if name := process.tls["server_name"]:
        options.append(("grpc.ssl_target_name_override", name))
    pems = (process.tls[one].encode() or None for one in ("ca", "key", "certificate"))
    return grpc.secure_channel(process.address, grpc.ssl_channel_credentials(*pems), options)


@dataclass(frozen=True, slots=True)
class _Part:
    """The output for the rows from `start` on: values, the input row of each, and rejected rows."""

    start: int
    rows: pa.RecordBatch
    kept: list[int]
    rejected: list[RejectedValue]


def _batch_frames(rows: pa.RecordBatch, schema_id: int) -> Iterator[record_pb2.Batch]:
    chunks = _frames.chunk_rows(memoryview(_frames.encode_rows(rows)), _frames.MESSAGE_MOST)
    for number, chunk in enumerate(chunks):
        yield record_pb2.Batch(
            seq=1,
            schema_id=schema_id,
            rows=rows.num_rows,
            encoding=record_pb2.ENCODING_ARROW_IPC,
            data=bytes(chunk),
            chunk=number,
            more_chunks=number + 1 < len(chunks),
        )


def _read_outcome(call: Any, given: pa.RecordBatch) -> Outcome:
    """Return the answer of a call, checked: one value for each input row that is not rejected."""
    schemas: dict[int, pa.Schema] = {}
    made: pa.RecordBatch | None = None
    chunks = _frames.Chunks()
    for response in call:
        if response.HasField("schema"):
            schemas[response.schema.schema_id] = _frames.decode_schema(response.schema.arrow_schema)
        if not response.HasField("out"):
            continue
        out: pb.TransformOut = response.out
        if out.HasField("batch") and (data := chunks.add(out.batch)) is not None:
            if made is not None or out.batch.schema_id not in schemas:
                raise _broken("schema", "rows came of a schema that was not announced, or twice")
            made = _frames.decode_foreign_rows(data, schemas[out.batch.schema_id])
        if not out.more:
            return _checked(out, made, given)
    raise _broken("transform_incomplete", "the answer did not come")


def _checked(out: pb.TransformOut, made: pa.RecordBatch | None, given: pa.RecordBatch) -> Outcome:
    rows = made if made is not None else pa.RecordBatch.from_pylist([], schema=pa.schema([]))
    failed = [(one.row, error_from_diagnostic(one.reason)) for one in out.failed]
    kept: Sequence[int] | None = tuple(out.input_rows) or None
    outcome = outcome_of(Transformed(rows, kept, tuple(out.filtered), failed), given, None)
    if outcome.filtered or list(outcome.input_rows) != sorted(set(outcome.input_rows)):
        raise _broken(
            "convert_rows", "a converter must return one value for each input, in their order"
        )
    return outcome


def _broken(rule: str, message: str) -> ConnectorError:
    return ConnectorError(
        f"plugin.protocol.{rule}", message, fix="Report this to the author of the converter."
    )


def _indices_of_values(values: pa.Array) -> list[int]:
    """Return the indices of the values that are not null."""
    found: list[int] = pc.indices_nonzero(values.is_valid()).to_pylist()
    return found


def _take(values: pa.Array, rows: list[int]) -> pa.Array:
    return values.take(pa.array(rows, pa.int32()))
