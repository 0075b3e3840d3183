"""The worker over gRPC: connection checks, live rows, log levels."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.api.worker.v1 import worker_service_pb2_grpc as api
from penstock.client import WorkerClient
from penstock.model.connector import Connector, ConnectorKind, TaskState, TaskStatus
from penstock.model.datasets import DatasetColumn
from penstock.model.errors import ConfigError, RetriableError
from penstock.model.inspection import InspectedRow, InspectRules, RowStage
from penstock.model.logs import LoggerLevel
from penstock.plugin.catalog.registry import PluginPath
from penstock.plugin.host import PluginHost
from penstock.rpc.server import Server
from penstock.worker.admin.connector_plugins import Validator
from penstock.worker.admin.datasets import DatasetLister
from penstock.worker.config.resolved_config import WorkerContext
from penstock.worker.runtime.service import WorkerService
from penstock.worker.task.live_rows import Inspections
from penstock.worker.task_plans import Planner
from support.waiting import until

NAME = "penstock.test_worker_service"


class TaskRegistry:
    """Has one task, whose rows can be inspected."""

    def __init__(self) -> None:
        self.inspections = Inspections()

    def task(self, id_: str) -> Any:
        return self if id_ == "g-0" else None

    def statuses(self) -> list[TaskStatus]:
        return [TaskStatus("g-0", "orders", 1, TaskState.RUNNING)]


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.task_registry = TaskRegistry()
        self.client: WorkerClient
        self.server: Server


@pytest.fixture
def serving(tmp_path: Path) -> Callable[[Callable[[Bench], Awaitable[None]]], None]:
    """Runs a test against the service, with the connectors that ship."""

    def run(test: Callable[[Bench], Awaitable[None]]) -> None:
        async def main(runtime: str) -> None:
            host = PluginHost(PluginPath((tmp_path / "plugins",)), Path(runtime) / "p")
            bench, context = Bench(tmp_path), WorkerContext(host)
            worker: Any = SimpleNamespace(
                admin=SimpleNamespace(
                    validator=Validator(context),
                    planner=Planner(context, None),
                    datasets=DatasetLister(context),
                ),
                task_registry=bench.task_registry,
                host=host,
            )
            bench.server = Server(f"unix:{runtime}/s", grace_s=5)
            bench.server.add(api.add_WorkerServiceServicer_to_server, WorkerService(worker))
            client = WorkerClient(bench.server.address)
            async with asyncio.timeout(60), bench.server, client as bench.client:
                await test(bench)
            await host.close(1.0)

        with tempfile.TemporaryDirectory() as runtime:  # sockets want short paths
            asyncio.run(main(runtime))

    return run


def pipeline(folder: Path, to: str) -> Connector:
    config = {
        "source.connector.class": "file-source", "source.file": f"{folder}/in",
        "sink.connector.class": "file-sink", "sink.file": to,
    }  # fmt: skip
    return Connector("orders", config, ConnectorKind.PIPELINE)


def test_newly_installed_plugins_are_loaded_on_request(serving):
    async def test(bench):
        folder = bench.folder / "plugins" / "new"
        folder.mkdir(parents=True)
        (folder / "plugin.toml").write_text(
            'name = "new"\nversion = "1"\ncommand = ["{python}"]\n'
            'connector = [{ name = "one", kind = "source" }]\n'
        )
        assert "new" not in [plugin.name for plugin in await bench.client.list_plugins()]
        reloaded = await bench.client.reload_plugins()
        assert reloaded.changed
        assert "new" in [plugin.name for plugin in reloaded.plugins]
        (folder / "plugin.toml").write_text("broken")
        reloaded = await bench.client.reload_plugins()
        assert [problem.code for problem in reloaded.problems] == ["plugin.bad_manifest"]
        assert not (await bench.client.reload_plugins()).changed

    serving(test)


def test_a_connection_is_checked_step_by_step_source_first(serving):
    async def test(bench):
        (bench.folder / "in").write_text("a\n")
        steps = bench.client.check_connection(pipeline(bench.folder, f"{bench.folder}/out"))
        found = [(step.end, step.step, step.ok) async for step in steps]
        assert found == [
            ("source", "config", True), ("source", "outside", True),
            ("sink", "config", True), ("sink", "outside", True),
        ]  # fmt: skip
        assert [file.name for file in bench.folder.iterdir()] == ["in"]  # it changes nothing
        (bench.folder / "in").unlink()
        os.mkfifo(bench.folder / "in")
        steps = bench.client.check_connection(pipeline(bench.folder, f"{bench.folder}/out"))
        failed = [step async for step in steps if not step.ok]
        assert [(step.end, step.step) for step in failed] == [("source", "outside")]
        assert str(bench.folder / "in") in failed[0].diagnostics[0].message

    serving(test)


def test_a_connector_that_is_not_installed_cannot_be_checked(serving):
    async def test(bench):
        connector = Connector("orders", {"connector.class": "fiel-source"})
        with pytest.raises(ConfigError, match=r"plugin\.not_installed"):
            await anext(bench.client.check_connection(connector))

    serving(test)


def test_datasets_of_a_source_are_listed_up_to_a_limit(serving):
    async def test(bench):
        for name in ("a", "b", "c"):
            (bench.folder / f"{name}.csv").write_text("id,name\n1,x\n")
        (bench.folder / "torn.csv").write_bytes(b'id\n"1\n')
        source = {"source.path": f"{bench.folder}/*.csv", "source.format": "csv"}
        chain = {"source.connector.class": "file-source", "sink.connector.class": "file-sink"}
        connector = Connector("orders", {**chain, **source, "sink.file": "x"})
        connector = replace(connector, kind=ConnectorKind.PIPELINE)
        parts = [part async for part in bench.client.list_datasets(connector)]
        assert [Path(part.dataset.name).name for part in parts] == [
            "a.csv", "b.csv", "c.csv", "torn.csv",
        ]  # fmt: skip
        columns = (DatasetColumn("id", "int64"), DatasetColumn("name", "string"))
        assert parts[0].dataset.columns == columns
        assert parts[0].dataset.problem is None
        assert parts[3].dataset.columns == ()
        assert parts[3].dataset.problem is not None
        parts = [part async for part in bench.client.list_datasets(connector, 2)]
        assert [part.more for part in parts] == [False, False, True]
        assert parts[2].dataset is None

    serving(test)


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"connector.class": "verifiable-source", "rows": "1"}, "plugin.lists_no_datasets"),
        ({"connector.class": "log-sink", "topics": "t"}, "plugin.wrong_kind"),
        ({"connector.class": "fiel-source"}, "plugin.not_installed"),
        ({"connector.class": "file-source"}, "config.missing"),
    ],
)
def test_what_lists_no_datasets_says_why(serving, config, code):
    async def test(bench):
        with pytest.raises(ConfigError) as caught:
            await anext(bench.client.list_datasets(Connector("orders", config)))
        assert caught.value.code == code
        assert caught.value.diagnostic.fix

    serving(test)


def row(offset: str, text: str) -> InspectedRow:
    return InspectedRow("orders", '{"p":1}', offset, 7, text)


def test_live_rows_are_streamed_until_their_limit(serving):
    async def test(bench):
        inspections = bench.task_registry.inspections
        rules = InspectRules(RowStage.READ, rows=2, row_bytes=8, seconds=30)
        looking = bench.client.inspect_rows("g-0", rules)
        first = asyncio.ensure_future(anext(looking))
        await until(inspections.sample_requests, "somebody looks")
        inspections.add_sample(RowStage.READ, [row("1", '{"a": 1}')])
        inspections.record_batch(5, 4)
        word = await first
        assert word.rows == (row("1", '{"a": 1}'),)
        inspections.add_sample(RowStage.READ, [row("2", '{"a": 12345}'), row("3", "{}")])
        (word,) = [one async for one in looking]
        assert word.rows == (InspectedRow("orders", '{"p":1}', "2", 7, '{"a": 12', cut=True),)
        assert word.missed in {0, 4}  # what passed may have been told with the first
        await until(lambda: not inspections._inspections, "nobody looks")

    serving(test)


def test_rows_after_a_transform_are_inspected_by_its_name(serving):
    async def test(bench):
        inspections = bench.task_registry.inspections
        inspections.set_transforms(["read"])
        looking = bench.client.inspect_rows("g-0", InspectRules("read", rows=1))
        first = asyncio.ensure_future(anext(looking))
        await until(inspections.sample_requests, "somebody looks")
        inspections.add_sample(RowStage.READ, [row("1", "{}")])
        inspections.add_sample("read", [row("2", "{}")])
        assert (await first).rows == (row("2", "{}"),)
        with pytest.raises(ConfigError, match=r"worker\.no_stage.*read, transforms\.read, trans"):
            await anext(bench.client.inspect_rows("g-0", InspectRules("keep")))

    serving(test)


def test_an_inspection_ends_with_its_reader_and_with_the_worker(serving):
    async def test(bench):
        inspections = bench.task_registry.inspections
        one, other = bench.client.inspect_rows("g-0"), bench.client.inspect_rows("g-0")
        first, second = asyncio.ensure_future(anext(one)), asyncio.ensure_future(anext(other))
        await until(lambda: len(inspections._inspections) == 2, "two look")
        first.cancel()
        await until(lambda: len(inspections._inspections) == 1, "one has gone")
        began = asyncio.get_running_loop().time()
        await bench.server.stop()
        assert asyncio.get_running_loop().time() - began < 4  # it does not wait for the minute
        with pytest.raises(RetriableError, match=r"rpc\.draining"):
            await second

    serving(test)


def test_an_unknown_task_is_not_found(serving):
    async def test(bench):
        with pytest.raises(ConfigError, match=r"worker\.not_found.*g-0"):
            await anext(bench.client.inspect_rows("g-1"))

    serving(test)


def test_a_log_level_is_set_in_one_process(serving):
    async def test(bench):
        await bench.client.set_log_level(NAME, "warn")
        assert logging.getLogger(NAME).level == logging.WARNING
        assert LoggerLevel(NAME, "WARNING", own=True) in await bench.client.list_log_levels()
        await bench.client.set_log_level(NAME, "")
        assert logging.getLogger(NAME).level == logging.NOTSET
        with pytest.raises(ConfigError, match=r"config\.log_level\]"):
            await bench.client.set_log_level(NAME, "LOUD")

    serving(test)
