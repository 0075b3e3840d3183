"""The control calls of a connector: no rows, one deadline each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

import grpc.aio

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1.connector_service_pb2_grpc import ConnectorServiceStub
from penstock.model.connector import ApplyAction, Partition, Target
from penstock.model.errors import Severity
from penstock.plugin import answers
from penstock.plugin.deadlines import Deadlines
from penstock.plugin.errors import violation
from penstock.plugin.process.connection import Link
from penstock.wire import connector as connector_wire
from penstock.wire import record as record_wire

_MOST_STEPS: Final = 1_000


class ControlCalls:
    """What a connector can be asked. Secrets of a target are hidden in all that comes back."""

    def __init__(self, link: Link, deadlines: Deadlines) -> None:
        self.link = link
        self.deadlines = deadlines
        self._stub = ConnectorServiceStub(link.channel)

    async def validate(self, target: Target, *, online: bool = False) -> answers.Validation:
        """Check a configuration; `online` may look at reachable systems too."""
        request = pb.ValidateConfigRequest(target=self._target(target), online=online)
        response = await self.link.call(
            "plugin.validate", self.deadlines.validate, self._stub.ValidateConfig, request
        )
        return answers.validation(response, self.link.redact)

    async def plan(
        self, target: Target, max_tasks: int, known: Sequence[Partition] = ()
    ) -> answers.Planned:
        """Turn a configuration into at most `max_tasks` tasks. Pure at the plugin."""
        request = pb.PlanRequest(
            target=self._target(target),
            max_tasks=max_tasks,
            known_partitions=[record_wire.partition_to_proto(p) for p in known],
        )
        response = await self.link.call(
            "plugin.plan", self.deadlines.plan, self._stub.Plan, request
        )
        if len(response.tasks) > max_tasks:
            raise violation(
                "too_many_tasks", f"Plan gave {len(response.tasks)} tasks, {max_tasks} were allowed"
            )
        return answers.planned(response, self.link.redact)

    async def apply(
        self,
        target: Target,
        action: ApplyAction,
        *,
        last_applied: Target | None = None,
        dry_run: bool = False,
    ) -> answers.Applied:
        """Set up, change or remove what the connector owns outside. Idempotent."""
        request = pb.ApplyRequest(
            target=self._target(target),
            action=int(action),  # type: ignore[arg-type] # enums share numbers
            last_applied=self._target(last_applied) if last_applied else None,
            dry_run=dry_run,
        )
        response = await self.link.call(
            "plugin.apply", self.deadlines.apply, self._stub.Apply, request
        )
        return answers.applied(response, self.link.redact)

    async def alter_offsets(
        self, target: Target, wanted: Sequence[Partition], *, dry_run: bool = False
    ) -> answers.Altered:
        """Check offsets that a person wants, and change them outside. Idempotent at the plugin."""
        request = pb.AlterOffsetsRequest(
            target=self._target(target),
            partitions=[record_wire.partition_to_proto(p) for p in wanted],
            dry_run=dry_run,
        )
        response = await self.link.call(
            "plugin.alter_offsets", self.deadlines.alter_offsets, self._stub.AlterOffsets, request
        )
        altered = answers.altered(response, self.link.redact)
        asked, answered = {p.id for p in wanted}, [p.id for p in altered.partitions]
        refused = any(found.severity is not Severity.WARNING for found in altered.diagnostics)
        if not refused and (len(answered) != len(asked) or asked != set(answered)):
            raise violation(
                "altered_partitions",
                f"AlterOffsets was asked about {len(asked)} partitions, and answered about "
                f"{len(answered)}, of which {len(asked.intersection(answered))} are among those",
            )
        return altered

    async def check(self, target: Target) -> AsyncGenerator[answers.CheckStep, None]:
        """Iterate over the steps of a connection check as they are done."""
        seconds, steps = self.deadlines.check, 0
        request = pb.CheckConnectionRequest(target=self._target(target))
        call = self._stub.CheckConnection(request, timeout=seconds, metadata=self.link.metadata)
        self.link.idleness.begin()
        call.add_done_callback(self.link.idleness.end)
        try:
            async for response in call:
                if steps == _MOST_STEPS:
                    raise violation("too_many_steps", f"more than {_MOST_STEPS} steps of a check")
                steps += 1
                yield answers.check_step(response, self.link.redact)
        except grpc.aio.AioRpcError as error:
            raise await self.link.failure(error, "plugin.check", seconds) from None
        finally:
            call.cancel()  # whoever asked may have gone

    def _target(self, target: Target) -> pb.Target:
        self.link.redact.learn(target.secrets.values())
        return connector_wire.target_to_proto(target)
