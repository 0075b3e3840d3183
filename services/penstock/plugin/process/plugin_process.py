"""A plugin process that serves one connector: its control calls, its health and its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import Any, Final, TypeVar

import grpc.aio
from google.protobuf.duration_pb2 import Duration

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.api.connector.v1.connector_service_pb2_grpc import ConnectorServiceStub
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from penstock.api.connector.v1.source_service_pb2_grpc import SourceServiceStub
from penstock.model.admin import Signal
from penstock.model.connector import ApplyAction, Partition, Target
from penstock.model.datasets import Dataset
from penstock.model.errors import PenstockError
from penstock.plugin import responses
from penstock.plugin.catalog.manifest import ConnectorEntry, Manifest
from penstock.plugin.errors import protocol_violation
from penstock.plugin.limits import Deadlines
from penstock.plugin.process.connection import Connection, ProcessHandle
from penstock.plugin.protocol_rules import DatasetRules
from penstock.wire import record as record_wire
from penstock.wire.connector import TARGET

_MAX_STEPS: Final = 1_000
_LONGEST_PLACE: Final = 1_000
"""Characters of a place that a plugin names."""

_R = TypeVar("_R")


class PluginProcess:
    """A running plugin that serves one connector to many tasks. Created by `start_plugin`.

    `exited` is done, with the exit code, when the process has ended; streams watch it. The host
    owns the process. Secrets of a target are redacted in everything that its calls return.
    """

    def __init__(
        self,
        manifest: Manifest,
        entry: ConnectorEntry,
        process: ProcessHandle,
        connection: Connection,
        description: responses.PluginDescription,
        deadlines: Deadlines,
    ) -> None:
        self.connection = connection
        self.deadlines = deadlines
        self.plugin = manifest.name
        self.connector = entry.name
        self.description = description
        self._process = process
        self._stub = ConnectorServiceStub(connection.channel)

    @property
    def name(self) -> str:
        """`plugin/connector`, for messages."""
        return self.connection.name

    @property
    def address(self) -> str:
        """The gRPC address, which executors dial too."""
        return self.connection.address

    @property
    def credential(self) -> str:
        """The credential that calls must carry; new at each launch."""
        return self.connection.credential

    @property
    def dial_info(self) -> dict[str, Any]:
        """The part of a ticket that executors need to dial the plugin."""
        info: dict[str, Any] = {"address": self.address, "credential": self.credential}
        if self.connection.tls:
            info["tls"] = self.connection.tls.to_dict()
        if self.shares_memory:
            info["memory_file"] = self.description.memory_file
        return info

    @property
    def shares_memory(self) -> bool:
        """Whether batches may pass in memory files: then executors of this machine need not copy
        them through a socket.
        """
        return bool(self.description.memory_file)

    @property
    def pid(self) -> int:
        """The process, which leads a group of the same number; 0 for a remote plugin."""
        return self._process.pid

    @property
    def is_remote(self) -> bool:
        """Whether it runs elsewhere, started by others."""
        return self.pid == 0

    @property
    def exited(self) -> asyncio.Future[int]:
        """The end of the process."""
        return self.connection.exited

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return not self.exited.done()

    @property
    def spec(self) -> responses.ConnectorSpec:
        """The connector, as Describe returned it."""
        spec = self.description.connector(self.connector)
        assert spec is not None  # noqa: S101 - checked at the start
        return spec

    async def is_reachable(self) -> bool:
        """Return whether a task may use it. A remote plugin is probed: its end is not reported."""
        if self.alive and not self.pid:
            await self._process.wait_for_exit(self.deadlines.health_s)
        return self.alive

    async def stop(self, grace_s: float = 5.0) -> None:
        """End the process: Shutdown, then SIGTERM, then SIGKILL of its group. Idempotent.

        From a remote plugin the host only disconnects: other hosts may use it.
        """
        if self.alive and self.pid:
            await self._shut_down(grace_s)
        await self.connection.close()
        await self._process.terminate()

    async def validate(self, target: Target) -> responses.Validation:
        """Validate a configuration."""
        request = pb.ValidateConfigRequest(target=self._target_to_proto(target))
        response = await self.connection.call(
            "plugin.validate", self.deadlines.validate_s, self._stub.ValidateConfig, request
        )
        return responses.validation_from_proto(response, self.connection.redact)

    async def plan(
        self, target: Target, max_tasks: int, known: Sequence[Partition] = ()
    ) -> responses.PlanResult:
        """Divide the work of a connector into at most `max_tasks` tasks. Changes nothing."""
        request = pb.PlanRequest(
            target=self._target_to_proto(target),
            max_tasks=max_tasks,
            known_partitions=[record_wire.partition_to_proto(p) for p in known],
        )
        response = await self.connection.call(
            "plugin.plan", self.deadlines.plan_s, self._stub.Plan, request
        )
        if len(response.tasks) > max_tasks:
            raise protocol_violation(
                "too_many_tasks",
                f"Plan returned {len(response.tasks)} tasks; at most {max_tasks} were allowed",
            )
        return responses.plan_from_proto(response)

    async def apply(
        self, target: Target, action: ApplyAction, *, last_applied: Target | None = None
    ) -> responses.ApplyResult:
        """Set up, change or remove what the connector owns in external systems. Idempotent."""
        request = pb.ApplyRequest(
            target=self._target_to_proto(target),
            action=int(action),  # type: ignore[arg-type] # enums share numbers
            last_applied=self._target_to_proto(last_applied) if last_applied else None,
        )
        response = await self.connection.call(
            "plugin.apply", self.deadlines.apply_s, self._stub.Apply, request
        )
        return responses.apply_result_from_proto(response, self.connection.redact)

    async def alter_offsets(
        self, target: Target, wanted: Sequence[Partition], *, dry_run: bool = False
    ) -> tuple[Partition, ...]:
        """Have the plugin check the offsets that a user sets, and apply them in external systems.

        Idempotent. Returns the offsets to store; `dry_run` changes nothing. The plugin may return a
        partition under another key than the user gave it.
        """
        request = pb.AlterOffsetsRequest(
            target=self._target_to_proto(target),
            partitions=[record_wire.partition_to_proto(p) for p in wanted],
            dry_run=dry_run,
        )
        response = await self.connection.call(
            "plugin.alter_offsets", self.deadlines.alter_offsets_s, self._stub.AlterOffsets, request
        )
        altered = responses.partitions_from_proto(response.partitions)
        different = len({p.id for p in altered})
        if not len(wanted) == len(altered) == different:
            raise protocol_violation(
                "altered_partitions",
                f"AlterOffsets was called for {len(wanted)} partitions and returned "
                f"{len(altered)}, of which {different} are different ones",
            )
        return altered

    async def send_signal(self, target: Target, signal: Signal) -> str:
        """Have the source write a signal to where its tasks read signals. Returns that place.

        Raises:
            PenstockError: of the plugin; `plugin.unimplemented`.
        """
        request = pb.SignalRequest(
            target=self._target_to_proto(target), id=signal.id, type=signal.type, data=signal.data
        )
        response = await self.connection.call(
            "plugin.signal", self.deadlines.signal_s, self._stub.Signal, request
        )
        return self.connection.redact(response.written_to[:_LONGEST_PLACE])

    async def check(self, target: Target) -> AsyncGenerator[responses.CheckStep, None]:
        """Iterate over the steps of a connection check as they are done."""
        request = pb.CheckConnectionRequest(target=self._target_to_proto(target))
        answers = self._stream(
            "plugin.check", self.deadlines.check_s, self._stub.CheckConnection, request
        )
        steps = 0
        async with aclosing(answers):
            async for response in answers:
                if steps == _MAX_STEPS:
                    raise protocol_violation(
                        "too_many_steps", f"a check has more than {_MAX_STEPS} steps"
                    )
                steps += 1
                yield responses.check_step_from_proto(response, self.connection.redact)

    async def list_datasets(self, target: Target) -> AsyncGenerator[Dataset, None]:
        """Iterate over the datasets that a source can read, as the plugin finds them. The caller
        stops at its limit.
        """
        request = pb.ListDatasetsRequest(target=self._target_to_proto(target))
        answers = self._stream(
            "plugin.list_datasets", self.deadlines.list_datasets_s, self._stub.ListDatasets, request
        )
        rules = DatasetRules()
        async with aclosing(answers):
            async for response in answers:
                schema = rules.check(response.dataset)
                redact = self.connection.redact
                yield responses.dataset_from_proto(response.dataset, schema, redact)

    async def parse_rows(
        self, target: Target, rows: Sequence[responses.RawRow]
    ) -> list[responses.ParsedRow]:
        """Have the source read single rows again from their bytes. Changes nothing.

        Raises:
            PenstockError: of the plugin; `plugin.unimplemented`, `plugin.protocol.parsed_row`.
        """
        request = source_pb.ParseRowsRequest(
            target=self._target_to_proto(target), rows=map(responses.raw_row_to_proto, rows)
        )
        stub = SourceServiceStub(self.connection.channel)
        response = await self.connection.call(
            "plugin.parse_rows", self.deadlines.parse_rows_s, stub.ParseRows, request
        )
        if len(response.rows) != len(rows):
            raise protocol_violation(
                "parsed_row",
                f"ParseRows returned {len(response.rows)} results for {len(rows)} rows",
            )
        redact = self.connection.redact
        return [responses.parsed_row_from_proto(row, redact) for row in response.rows]

    async def _stream(
        self,
        stage: str,
        timeout_s: float,
        method: Callable[..., grpc.aio.UnaryStreamCall[Any, _R]],
        request: Any,
    ) -> AsyncGenerator[_R, None]:
        """Make a call with a streamed answer."""
        call = method(request, timeout=timeout_s, metadata=self.connection.metadata)
        self.connection.idle_timer.begin_use()
        call.add_done_callback(self.connection.idle_timer.end_use)
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as error:
            raise await self.connection.call_error(error, stage, timeout_s) from None
        finally:
            call.cancel()  # the caller may have stopped iterating

    def _target_to_proto(self, target: Target) -> pb.Target:
        self.connection.redact.add_secrets(target.secrets.values())
        return TARGET.to_proto(target)

    async def _shut_down(self, grace_s: float) -> None:
        clock = asyncio.get_running_loop().time
        until = clock() + grace_s + self.deadlines.end_s
        grace = Duration()
        grace.FromTimedelta(timedelta(seconds=grace_s))
        request = plugin_pb.ShutdownRequest(grace=grace)
        stub = PluginServiceStub(self.connection.channel)
        with suppress(PenstockError):
            await self.connection.call("plugin.shutdown", until - clock(), stub.Shutdown, request)
        # A plugin that answered ends by itself; one that did not had its time.
        await self._process.wait_for_exit(min(until - clock(), self.deadlines.end_s))
