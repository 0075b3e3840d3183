"""`penstock standalone` with a file for each connector, and what its scheduler says of them.

with Standalone(folder, read={"connector.class": …}, write={"connector.class": …}) as node:
    node.wait_for(lambda: …, "rows in the target")
    assert node.failure("write") == "schema.changed"
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from penstock.client import SchedulerClient
from penstock.model.errors import PenstockError, RetriableError
from penstock.model.status import RunState, RunStatus
from penstock_kit.testing import PenstockProcess
from support.processes import TESTS

SOON: float = 120.0
"""Seconds for what takes some, with a start of a JVM before it, on a machine that is busy."""


class Standalone:
    """One start of the command. Leaving the `with` block kills what is left of it."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        module: str = "penstock.cli",
        **connectors: Mapping[str, object],
    ) -> None:
        """Write the files into `folder`.

        Args:
            folder: Of this node alone.
            settings: More settings of the node.
            env: Variables of the node.
            module: The one with the command line; that of `PLAIN` has no Spark.
            **connectors: Configurations by name.
        """
        folder.mkdir(parents=True, exist_ok=True)
        worker = {"state.dir": f"{folder}/state", "spark.master": "local[2]", **(settings or {})}
        configs = {"worker": worker}
        configs |= {name: {"name": name, **config} for name, config in connectors.items()}
        files = [folder / f"{name}.json" for name in configs]
        for file, config in zip(files, configs.values(), strict=True):
            texts = {key: str(value) for key, value in config.items()}
            file.write_text(json.dumps(texts), encoding="utf-8")
        self.process = PenstockProcess(
            folder / "run",
            "standalone",
            *files,
            env={"PYTHONPATH": TESTS, **(env or {})},
            module=module,
        )
        self._runner = asyncio.Runner()  # one loop: gRPC keeps to the one it was first used in

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.close()
        self._runner.close()

    def wait_for(self, condition: Callable[[], object], stage: str) -> None:
        """Wait for a condition."""
        self.process.wait_for(condition, SOON, stage)

    def written(self, name: str) -> int:
        """Return the rows that a connector's tasks have committed; none of them may have failed."""
        assert not self._failed(name), f"{name}: {self._failed(name)}\n{self.process.output}"
        return sum(task.task.rows_written for task in self._tasks(name) if task.task)

    def failure(self, name: str) -> str:
        """Wait until a task of a connector is FAILED; returns the code."""
        self.process.wait_for(lambda: self._failed(name), SOON, f"a task of {name} to fail")
        return self._failed(name)[0]

    def _failed(self, name: str) -> list[str]:
        failed = [task for task in self._tasks(name) if task.state is RunState.FAILED]
        return [task.diagnostic.code if task.diagnostic else "" for task in failed]

    def _tasks(self, name: str) -> list[RunStatus]:
        # the last one: a node that replaced itself has another
        addresses = re.findall(r"SchedulerService at (unix:\S+)", self.process.output)
        return self._runner.run(_tasks(addresses[-1], name)) if addresses else []


async def _tasks(address: str, name: str) -> list[RunStatus]:
    """Return none while no scheduler leads, or the leader has not read the configuration yet."""
    async with SchedulerClient(address) as client:
        try:
            return [task for status in await client.list_statuses(name) for task in status.tasks]
        except RetriableError:
            return []
        except PenstockError as error:
            if error.code != "scheduler.not_found":
                raise
            return []
