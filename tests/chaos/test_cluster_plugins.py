"""A plugin that hangs or dies: it is told how, its task is tried again, nobody else notices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from penstock.client import ConfigClient
from penstock.model.connector import Connector, ConnectorKind, TargetState
from penstock.model.errors import Diagnostic, PenstockError
from penstock.model.status import RunState
from support.cluster import READY, Cluster
from support.flow import SPARK, Flow

MOODY: Final = Path(__file__).parent.parent / "support" / "moody"
WORKER: Final = {"plugin.path": str(MOODY), "plugin.only.sealed": "false", **SPARK}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One worker: those in trouble share it with those who are not."""
    with Cluster(tmp_path_factory.mktemp("cluster"), plain=True, **{"lease.ttl": "30s"}) as cluster:
        cluster.workers("w1", **WORKER)
        yield cluster


class Moods:
    """A connector that hangs or dies when it is told to."""

    def __init__(self, cluster: Cluster, name: str, mood: str = "") -> None:
        self.cluster, self.name = cluster, name
        self.mood = cluster.folder / self.name
        self.feel(mood)

    @property
    def config(self) -> dict[str, str]:
        """Its keys."""
        return {
            "name": self.name,
            "connector.class": "moody-source",
            "mood": str(self.mood),
            "topic": self.name,
        }

    def feel(self, mood: str) -> None:
        """Do as this says; moods are moody.py's."""
        self.mood.write_text(mood, encoding="utf-8")

    def create(self) -> None:
        """Store it."""
        self.cluster.create(self.name, self.config, ConnectorKind.SOURCE)

    def found(self) -> Diagnostic | None:
        """Return what is known to be wrong with it."""
        status = self.cluster.status(self.name)
        if status is None:
            return None
        return next((t.diagnostic for t in status.tasks if t.diagnostic), status.diagnostic)

    def runs(self) -> None:
        """Wait until it runs."""
        self.cluster.running(self.name, 1)

    def advances(self) -> None:
        """Wait until its rows go on."""
        generation = self.cluster.config(lambda config: config.get(self.name)).generation

        def offset() -> int:
            stored = self.cluster.offset(lambda offset: offset.get(generation, ['{"n":0}']))
            return int(stored['{"n":0}']["next"]) if stored else 0

        before = offset()
        self.cluster.until(lambda: offset() > before + 10, READY, f"rows of {self.name}", offset)

    def runs_after_all(self) -> None:
        """Let it go on: a restart is enough."""
        self.feel("")
        self.cluster.config(lambda config: config.request_restart(self.name, include_tasks=True))
        self.runs()
        self.cluster.config(lambda config: config.delete(self.name))


def test_hangs_are_named_and_touch_nobody_else(cluster: Cluster) -> None:
    """S6: a deadline ends each wait; rows of another pipeline flow all the time."""
    flow = Flow(cluster, "beside-hangs", tasks=1)
    flow.start()
    named = {"plan": "plan", "connect": "open", "read": "sent nothing"}
    hanging = {stage: Moods(cluster, f"hangs-in-{stage}", f"hang {stage}") for stage in named}
    for moods in hanging.values():
        moods.create()

    told: set[str] = set()

    def all_told() -> bool:
        for stage, moods in hanging.items():
            diagnostic = moods.found()
            if diagnostic and named[stage] in diagnostic.message:
                told.add(stage)
        return told == set(named)

    cluster.until(all_told, READY, "each hang to be named", lambda: told)
    epochs = flow.epochs()
    flow.advance()
    assert flow.epochs() == epochs
    for moods in hanging.values():
        moods.runs_after_all()
    flow.delete()


def test_a_hang_in_validate_is_told_to_who_asks(cluster: Cluster) -> None:
    """S6: the request times out with the stage's name."""
    moods = Moods(cluster, "hangs-in-validate", "hang validate")

    async def validate(client: ConfigClient) -> None:
        await client.validate(Connector(moods.name, moods.config, ConnectorKind.SOURCE))

    with pytest.raises(PenstockError) as caught:
        cluster.config(validate)
    assert "validate" in caught.value.diagnostic.message


def test_a_hang_in_close_ends_with_the_grace(cluster: Cluster) -> None:
    """S6: a stop is done although the plugin never returns."""
    moods = Moods(cluster, "hangs-in-close", "hang close")
    moods.create()
    cluster.running(moods.name, 1)
    stored = cluster.config(lambda config: config.set_target_state(moods.name, TargetState.STOPPED))

    def stopped() -> bool:
        status = cluster.status(moods.name)
        held = cluster.scheduler(lambda client: client.list_held_tasks(stored.generation)).tasks
        return not held and status is not None and status.state is RunState.STOPPED

    cluster.until(stopped, READY, "to stop", lambda: cluster.status(moods.name))
    cluster.config(lambda config: config.set_target_state(moods.name, TargetState.RUNNING))
    moods.runs_after_all()


def test_a_worker_restarts_while_a_plugin_of_it_hangs(cluster: Cluster) -> None:
    """S6: it ends in order although the plugin does not, and its other tasks go on after it."""
    flow = Flow(cluster, "beside-restart", tasks=1)
    flow.start()
    moods = Moods(cluster, "hangs-in-restart")
    moods.create()
    moods.advances()
    moods.feel("hang read")
    assert cluster.processes["w1"].stop(READY) == 0
    moods.feel("")
    cluster.workers("w1", **WORKER)
    flow.advance()
    moods.advances()
    cluster.config(lambda config: config.delete(moods.name))
    flow.delete()


@pytest.mark.parametrize(
    ("how", "told"), [("kill", "SIGKILL"), ("segfault", "SIGSEGV"), ("exit", "status 0")]
)
def test_a_plugin_that_dies_is_replaced_and_nobody_else_notices(
    cluster: Cluster, how: str, told: str
) -> None:
    """P1: the worker says how it ended; the task starts again by itself."""
    flow = Flow(cluster, f"beside-{how}", tasks=1)
    flow.start()
    epochs = flow.epochs()
    moods = Moods(cluster, f"dies-of-{how}")
    moods.create()
    moods.advances()
    worker = cluster.processes["w1"]
    before = len(worker.output)
    moods.feel(f"die {how}")
    cluster.until(lambda: told in worker.output[before:], READY, f"{told} to be told")
    moods.advances()
    flow.advance()
    assert flow.epochs() == epochs
    cluster.config(lambda config: config.delete(moods.name))
    flow.delete()
