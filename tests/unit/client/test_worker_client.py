"""WorkerClient: values in, values out, whatever the worker answers."""

# ruff: noqa: N802 - names of methods are those of the wire

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.api.worker.v1 import worker_service_pb2_grpc as api
from penstock.client import WorkerClient
from penstock.model.admin import PlannedConnector
from penstock.model.connector import (
    Connector,
    ConnectorKind,
    Partition,
    TaskPlan,
    TaskState,
    TaskStatus,
)
from penstock.model.errors import ConfigError, Diagnostic, ErrorClass
from penstock.model.plugins import InstalledConnector, InstalledPlugin
from penstock.rpc.server import Server
from penstock.wire.connector import PLAN as PLAN_CODEC
from penstock.wire.error import DIAGNOSTIC
from penstock.wire.worker import INSTALLED_PLUGIN, TASK_STATUS

PLUGIN = InstalledPlugin(
    "builtin", "1.0", (InstalledConnector("file-source", "source", "Files", ("FileStream",)),)
)
FINDING = Diagnostic("config.key", "no such key", ErrorClass.CONFIG, config_path="pth")
PLAN = TaskPlan("g-0", (Partition({"file": "a"}, offset={"pos": 1}),), {"k": "v"})
STATUS = TaskStatus("g-0", "orders", 7, TaskState.FAILED, FINDING, 1, 2, 3, 4, 5, -1, 6)
ORDERS = Connector("orders", {"a": "1"}, ConnectorKind.SOURCE, generation="g", revision=3)


class Worker(api.WorkerServiceServicer):
    """Answers constants."""

    async def ListPlugins(self, request, context):
        return pb.ListPluginsResponse(plugins=[INSTALLED_PLUGIN.to_proto(PLUGIN)])

    async def ReloadPlugins(self, request, context):
        return pb.ReloadPluginsResponse(
            plugins=[INSTALLED_PLUGIN.to_proto(PLUGIN)],
            changed=True,
            problems=[DIAGNOSTIC.to_proto(FINDING)],
        )

    async def ValidateConnector(self, request, context):
        found = [DIAGNOSTIC.to_proto(FINDING)]
        kind = ConnectorKind.SOURCE
        return pb.ValidateConnectorResponse(diagnostics=found, kind=int(kind))

    async def PlanConnector(self, request, context):
        found = [DIAGNOSTIC.to_proto(FINDING)]
        return pb.PlanConnectorResponse(
            plans=[PLAN_CODEC.to_proto(PLAN)], diagnostics=found, monitor=True
        )

    async def WatchTasks(self, request, context):
        for _ in range(2):
            yield pb.WatchTasksResponse(task=TASK_STATUS.to_proto(STATUS))
        if request.every_ms == 250:
            raise ConfigError("x.y", "enough")


@asynccontextmanager
async def working(folder):
    server = Server(f"unix:{folder}/s")
    server.add(api.add_WorkerServiceServicer_to_server, Worker())
    async with server, WorkerClient(server.address) as client, asyncio.timeout(60):
        yield client


def test_every_answer_is_a_value_of_the_model(tmp_path):
    async def main():
        async with working(tmp_path) as client:
            assert await client.list_plugins() == [PLUGIN]
            reloaded = await client.reload_plugins()
            assert (reloaded.plugins, reloaded.changed) == ((PLUGIN,), True)
            assert reloaded.problems == (FINDING,)
            validated = await client.validate(ORDERS)
            assert validated.diagnostics == (FINDING,)
            assert validated.kind is ConnectorKind.SOURCE
            planned = await client.plan(ORDERS)
            assert planned == PlannedConnector((PLAN,), (FINDING,), monitor=True)

    asyncio.run(main())


def test_a_watch_of_tasks_streams_status_and_ends_with_its_error(tmp_path):
    async def main():
        async with working(tmp_path) as client:
            assert [s async for s in client.watch_tasks()] == [STATUS, STATUS]
            watch = client.watch_tasks(interval_s=0.25)
            assert [await anext(watch), await anext(watch)] == [STATUS, STATUS]
            with pytest.raises(ConfigError, match=r"x\.y"):
                await anext(watch)

    asyncio.run(main())


def test_what_a_newer_version_says_reads_as_unset(tmp_path):
    from penstock.wire.config import state_from_proto

    message = pb.TaskStatus(task_id="g-0")
    message.state = 99
    assert TASK_STATUS.from_proto(message).state is TaskState.UNSPECIFIED
    assert state_from_proto(99).name == state_from_proto(0).name == "RUNNING"
