"""A worker: its plugins, its engine, its topics and its tasks, put together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.client import ConfigClient, OffsetClient
from penstock.plugin import PluginHost
from penstock.secrets import NO_SECRETS, Secrets
from penstock.spark.engine import Engine
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.worker.admin.operations import Asked
from penstock.worker.config.reach import NO_BOUNDS, Bounds
from penstock.worker.endpoints import EndMaker
from penstock.worker.ports import Previews
from penstock.worker.runtime.task_factory import Maker, Opener
from penstock.worker.runtime.task_registry import Holdings
from penstock.worker.runtime.topic_tracking import Noting


class Worker:
    """Runs tasks. The maker starts and stops the engine, the plugin host and the topics."""

    def __init__(
        self,
        host: PluginHost,
        engine: Engine,
        topics: EmbeddedTopics,
        offsets: OffsetClient,
        config: ConfigClient,
        *,
        functions: Sequence[Path] = (),
        secrets: Secrets = NO_SECRETS,
        bounds: Bounds = NO_BOUNDS,
        previews: Previews | None = None,
    ) -> None:
        """`config` has the plans that monitors are told. Its maker closes it, `offsets` and
        `secrets`. `functions` are the folders with Python functions of the user; `bounds` says
        what connectors may have. Without `previews`, previews run in `engine`.
        """
        self.host = host
        self.engine = engine
        self.asked = Asked(host, engine, topics, offsets, functions, secrets, bounds, previews)
        self.holdings = Holdings(
            lambda one: self._maker.make(one, self.holdings.changed, self.holdings.wish)
        )
        self.noting = Noting(config)
        ends = EndMaker(host, topics)
        opener = Opener(
            host, engine, ends, offsets, self.noting.telling, functions, secrets, bounds.reach
        )
        self._maker = Maker(opener, config)
