"""Secrets: in nothing that a plugin says or prints."""

from __future__ import annotations

from typing import Any, Final

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.conformance.bench import Bench
from penstock.conformance.calls import RefusedError, call, collect, stream
from penstock.conformance.cases import Case
from penstock.conformance.checks.register import case
from penstock.conformance.process import Plugin
from penstock.conformance.verdict import NotApplicableError, require

_CANARY: Final = "canary-7f3a9c51e2"


@case("secrets.absent")
async def absent(bench: Bench, case: Case) -> None:
    """The value of a sensitive key is in no log, no description, no answer and no error."""
    keys = [key.name for key in bench.spec.config_keys if key.sensitive]
    if not keys:
        raise NotApplicableError("no key is sensitive")
    async with bench.own_world() as world, bench.fresh() as plugin:
        target = world.target()
        for key in keys:
            target.config.pop(key, None)
            target.secrets[key] = f"{_CANARY} with words and 'quotes'"
        said = await _all_said(bench, plugin, target, case.seconds)
        plugin.leave()
        await plugin.ends(case.seconds)
        await plugin.heard_all()
        said["what it printed"] = plugin.output
    places = [place for place, text in said.items() if _CANARY in text]
    require(not places, f"the value of {' or '.join(keys)} is in {', '.join(places)}")


async def _all_said(
    bench: Bench, plugin: Plugin, target: pb.Target, seconds: float
) -> dict[str, str]:
    """Make it say all that it can about a target, by call."""
    metadata = plugin.metadata
    connectors = plugin.connectors
    validate = pb.ValidateConfigRequest(target=target, online=True)
    plan = pb.PlanRequest(target=target, max_tasks=1)
    check = pb.CheckConnectionRequest(target=target)
    describe = plugin_pb.DescribeRequest()
    said = {
        "ValidateConfig": await _said(connectors.ValidateConfig, validate, metadata, seconds),
        "CheckConnection": await _said(
            connectors.CheckConnection, check, metadata, seconds, streamed=True
        ),
        "Plan": await _said(connectors.Plan, plan, metadata, seconds),
        "Describe": await _said(plugin.plugins.Describe, describe, metadata, seconds),
    }
    said["Open"] = await _opened(bench, plugin, target, seconds)
    return said


async def _said(
    method: Any, request: Any, metadata: Any, seconds: float, *, streamed: bool = False
) -> str:
    make: Any = collect if streamed else call
    try:
        return str(await make(method, request, metadata, seconds))
    except RefusedError as error:
        return error.text


async def _opened(bench: Bench, plugin: Plugin, target: pb.Target, seconds: float) -> str:
    task = pb.TaskPlan(task_id=bench.task_id())
    if bench.spec.kind == plugin_pb.KIND_SINK:
        method: Any = plugin.sinks.Write
        frame: Any = sink_pb.WriteRequest(open=sink_pb.WriteOpen(target=target, task=task, epoch=1))
    else:
        method = plugin.sources.Read
        frame = source_pb.ReadRequest(open=source_pb.ReadOpen(target=target, task=task, epoch=1))
    try:
        async with stream(method, plugin.metadata) as opened:
            await opened.send(frame)
            return str(await opened.receive(seconds))
    except RefusedError as error:
        return error.text
    except TimeoutError:
        return ""
