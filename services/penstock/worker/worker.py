"""A worker: its plugins, its engine, its topics and its tasks, put together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.client import ConfigClient, OffsetClient
from penstock.plugin import PluginHost
from penstock.spark.engine import Engine
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.worker.assigned import Assigned
from penstock.worker.ends import EndMaker
from penstock.worker.holdings import Holdings
from penstock.worker.life import Life
from penstock.worker.making import Maker
from penstock.worker.planning import Planner


class Worker:
    """Runs tasks. The maker starts and stops the engine, the plugin host and the topics."""

    def __init__(
        self,
        host: PluginHost,
        engine: Engine,
        topics: EmbeddedTopics,
        offsets: OffsetClient,
        config: ConfigClient,
        functions: Sequence[Path] = (),
    ) -> None:
        """`config` has the plans that monitors are told. Its maker closes it, and `offsets`.
        `functions` are the folders with Python functions of the user.
        """
        self.host = host
        self.engine = engine
        self.planner = Planner(host, topics, functions)
        self.holdings = Holdings(self._made)
        self._maker = Maker(host, engine, EndMaker(host, topics), offsets, config, functions)

    def _made(self, assigned: Assigned) -> Life:
        return self._maker.make(assigned, self.holdings.changed, self.holdings.wish)
