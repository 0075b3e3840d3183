"""All services in this process, and the gateway before them, for tests that speak HTTP.

with Gateway(folder) as gateway:
    assert gateway.get("/connectors").json() == []
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import httpx

from penstock.gateway.access.guard import Guard
from penstock.gateway.app import build_app
from penstock.gateway.clients import Processes, ServiceClients, Workers
from penstock.gateway.http_server import serve
from penstock.gateway.listeners import Listener
from penstock.standalone.node import Node
from penstock.standalone.settings import node_settings
from penstock.telemetry.logs import RECENT_LOGS
from penstock_kit.testing import wait_until

READY: Final = 120.0
"""Seconds for a state to come, on a machine that is busy."""

_T = TypeVar("_T")


class Gateway:
    """A node with a gateway, in a loop of its own; `client` speaks to it."""

    def __init__(self, folder: Path, **keys: str) -> None:
        """`keys` of the node."""
        config = {"state.dir": str(folder), "spark.master": "local[1]", **keys}
        self._settings, _ = node_settings({"spark.driver.memory": "512m", **config})
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stack = AsyncExitStack()
        self.address = ""
        self.node: Node
        self.clients: ServiceClients
        self.client: httpx.Client

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(RECENT_LOGS)  # what `set_up` does in a process of its own
        self._thread.start()
        self.run(self._open)
        self.client = httpx.Client(base_url=f"http://{self.address}", timeout=90)
        wait_until(lambda: self.get("/health").status_code == 200, READY, "the gateway's health")
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.run(self._stack.aclose)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Run a coroutine in the loop of the services."""

        async def awaited() -> _T:
            return await call()

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result(READY)

    def get(self, path: str, **more: Any) -> httpx.Response:
        """GET a path."""
        return self.client.get(path, **more)

    def put(self, path: str, json: Any = None, **more: Any) -> httpx.Response:
        """PUT a JSON body, or none."""
        return self.client.put(path, **({} if json is None else {"json": json}), **more)

    def patch(self, path: str, json: Any, **more: Any) -> httpx.Response:
        """PATCH a JSON body."""
        return self.client.patch(path, json=json, **more)

    def post(self, path: str, json: Any = None, **more: Any) -> httpx.Response:
        """POST a JSON body, or none."""
        return self.client.post(path, **({} if json is None else {"json": json}), **more)

    def delete(self, path: str, **more: Any) -> httpx.Response:
        """DELETE a path."""
        return self.client.delete(path, **more)

    def create(self, name: str, state: str = "STOPPED", **config: str) -> httpx.Response:
        """Make a connector: numbered rows into a topic, when nothing else is said."""
        given = config or {"connector.class": "verifiable-source", "rows": "10", "topic": "rows"}
        body = {"name": name, "config": given, "initial_state": state}
        answer = self.post("/connectors", body)
        assert answer.status_code == 201, answer.text
        return answer

    def states(self, path: str) -> tuple[str, set[str]]:
        """Return the state of a connector, and those of its tasks."""
        status = self.get(f"{path}/status").json()
        return status["connector"]["state"], {task["state"] for task in status["tasks"]}

    def until(self, path: str, state: str) -> None:
        """Wait until a connector and all its tasks, of which there are some, have a state."""
        tasks = set() if state == "STOPPED" else {state}
        wait_until(lambda: self.states(path) == (state, tasks), READY, f"{path} to be {state}")

    async def _open(self) -> None:
        enter = self._stack.enter_async_context
        self.node = await enter(Node(self._settings))
        workers = Workers(self.node.scheduler)
        self._stack.push_async_callback(workers.close)
        node = self.node
        processes = Processes(node.addresses)
        self._stack.push_async_callback(processes.close)
        self.clients = ServiceClients(node.config, node.offset, node.scheduler, workers, processes)
        app = build_app(self.clients, "tests", Guard())
        (url,) = await enter(serve(app, [Listener("127.0.0.1:0")]))
        self.address = url.removeprefix("http://")
        await self.node.start_connectors()
