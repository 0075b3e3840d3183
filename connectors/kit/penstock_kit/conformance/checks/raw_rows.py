"""Single rows that a source reads again from their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import grpc

from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock_kit.conformance.bench import SMALL_BATCHES, Bench, case
from penstock_kit.conformance.calls import RefusedError, call
from penstock_kit.conformance.cases import Case
from penstock_kit.conformance.checks.configuration import columns_of
from penstock_kit.conformance.process import Plugin
from penstock_kit.conformance.results import NotApplicableError, require
from penstock_kit.conformance.rows import Row, decode_rows
from penstock_kit.conformance.sandbox import Sandbox
from penstock_kit.conformance.source_task import open_source

_NOISE: Final = (b"", b"\xff\x00\xfe", b"\x00" * 70_000)
"""Bytes of which nobody knows whether they are a row: each has a result all the same."""


@case("parse.rows")
async def parsed(bench: Bench, case: Case) -> None:
    """Each row has one result, in order, with the columns of Read; the same bytes give the same."""
    plugin = await bench.shared_plugin()
    async with bench.sandbox() as sandbox:
        first = await _parse(plugin, sandbox, _rows("", "", _NOISE), case)
        _check(first, len(_NOISE))
        good, bad = (
            sandbox.expand(text).encode()
            for text in (bench.declaration.raw_row, bench.declaration.raw_bad)
        )
        if not good:
            return
        async with open_source(plugin, sandbox, bench.read_options(**SMALL_BATCHES)) as task:
            trace = await bench.read_all(task)
        require(trace.rows, "no row came, with which a row that is read again could be compared")
        row = trace.rows[0]
        wanted = _rows(row.partition, row.dataset, (good, bad, good))
        answers = [await _parse(plugin, sandbox, wanted, case) for _ in range(2)]
    for answer in answers:
        _check(answer, len(wanted))
        require(not answer[0].HasField("reason"), f"`raw_row` is refused: {answer[0].reason}")
        require(answer[1].HasField("reason"), "`raw_bad` is taken for a row")
        require(not answer[2].HasField("reason"), f"`raw_row` is refused: {answer[2].reason}")
    schemas = [one for one in trace.of_kind("schema") if one.dataset == row.dataset]
    found, read = answers[0][0].schema, [columns_of(one) for one in schemas]
    require(found.dataset == row.dataset, f"a row of {row.dataset!r} came as {found.dataset!r}")
    require(columns_of(found) in read, f"a row has {columns_of(found)}, Read gives {read}")
    once, again = ([_row(one) for one in answer] for answer in answers)
    require(once == again, f"the same bytes gave {once}, then {again}")


def _rows(partition: str, dataset: str, raw: Sequence[bytes]) -> list[pb.RawRow]:
    return [pb.RawRow(partition_id=partition or "{}", dataset=dataset, raw=one) for one in raw]


async def _parse(
    plugin: Plugin, sandbox: Sandbox, rows: Sequence[pb.RawRow], case: Case
) -> list[pb.ParsedRow]:
    request = pb.ParseRowsRequest(target=sandbox.target(), rows=rows)
    try:
        answer = await call(plugin.sources.ParseRows, request, plugin.metadata, case.seconds)
    except RefusedError as error:
        if error.status is grpc.StatusCode.UNIMPLEMENTED:
            raise NotApplicableError("it cannot read single rows again") from None
        raise
    return list(answer.rows)


def _check(answer: Sequence[pb.ParsedRow], wanted: int) -> None:
    """Check that there is a result for each row, and that it is a row or a reason."""
    require(len(answer) == wanted, f"{wanted} rows have {len(answer)} results")
    for one in answer:
        if one.HasField("reason"):
            require(one.reason.code, f"a reason has no code: {one.reason.message}")
            require(one.reason.message, f"{one.reason.code} has no message")
            require(not one.HasField("row"), f"a row came with a reason: {one.reason.code}")
            continue
        require(one.HasField("row") and one.HasField("schema"), "a row has no batch, or no schema")
        head = (one.row.rows, one.row.seq, one.row.schema_id, one.schema.schema_id)
        require(head == (1, 1, 1, 1), f"rows, seq and schema ids are {head}, expected 1")
        count = len(_row(one))
        require(count == 1, f"the batch of a row has {count} rows")


def _row(found: pb.ParsedRow) -> list[Row]:
    """Return the row; none where there is a reason."""
    if found.HasField("reason"):
        return []
    return decode_rows(found.row.data, found.schema.arrow_schema, found.row.encoding)
