"""What people ask of a connector: its target states, its offsets, its end; rows stay exactly once.

Kafka's KIP-875 says what each state means: PAUSED keeps its tasks and moves nothing, STOPPED has
none.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client import OffsetClient
from penstock.model.connector import TargetState
from penstock.model.errors import PenstockError
from penstock.model.status import RunState
from penstock_kit.testing import read_ledger
from support.cluster import READY, Cluster
from support.flow import SPARK, Flow

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One worker is enough: what is asked for is the same for each."""
    with Cluster(tmp_path_factory.mktemp("cluster"), plain=True) as cluster:
        cluster.workers("w1", **SPARK)
        yield cluster


@pytest.fixture
def flow(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Flow]:
    """Rows that flow; checked at the end."""
    name = request.node.name.removeprefix("test_").translate(str.maketrans("[", "-", "]"))
    flow = Flow(cluster, name, tasks=2)
    flow.start()
    flow.advance(50)
    yield flow
    flow.advance(50)
    flow.delete()


def reach(flow: Flow, state: TargetState) -> None:
    """Ask for a state, and wait until it is there."""
    flow.cluster.config(lambda config: config.set_target_state(flow.name, state))
    there(flow, state)


def there(flow: Flow, state: TargetState) -> None:
    """Wait until a state is there: STOPPED is when no worker holds a task any more."""
    cluster = flow.cluster
    generation = cluster.config(lambda config: config.get(flow.name)).generation
    wanted = {
        TargetState.RUNNING: [RunState.RUNNING] * flow.tasks,
        TargetState.PAUSED: [RunState.PAUSED] * flow.tasks,
        TargetState.STOPPED: [],
    }[state]

    def is_there() -> bool:
        status = cluster.status(flow.name)
        held = cluster.scheduler(lambda client: client.list_held_tasks(generation)).tasks
        if status is None or [task.state for task in status.tasks] != wanted:
            return False
        return state is not TargetState.STOPPED or (not held and status.state is RunState.STOPPED)

    stage = f"{flow.name} to be {state.name}"
    cluster.until(is_there, READY, stage, lambda: cluster.status(flow.name))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (TargetState.RUNNING, TargetState.STOPPED),
        (TargetState.PAUSED, TargetState.STOPPED),
        (TargetState.STOPPED, TargetState.PAUSED),
        (TargetState.STOPPED, TargetState.RUNNING),
    ],
    ids=lambda state: state.name.lower(),
)
def test_any_state_follows_any_other(flow: Flow, first: TargetState, then: TargetState) -> None:
    """S7: nothing is held while STOPPED, and no row is lost."""
    for state in (first, then):
        reach(flow, state)
    reach(flow, TargetState.RUNNING)


@pytest.mark.parametrize("state", [TargetState.PAUSED, TargetState.STOPPED])
def test_a_connector_begins_in_the_state_it_is_created_with(
    cluster: Cluster, state: TargetState
) -> None:
    """S7: it moves nothing until it is told to; deleted while it waits, it leaves nothing."""
    flow = Flow(cluster, f"begins-{state.name.lower()}", tasks=2)
    flow.create(state)
    there(flow, state)
    assert not flow.counts()
    cluster.config(lambda config: config.delete(flow.name))
    cluster.until(lambda: cluster.status(flow.name) is None, READY, "it to be gone")
    assert not flow.counts()


def test_a_stopped_connector_has_no_process(cluster: Cluster) -> None:
    """S7: the plugins that only it used are gone."""
    worker = cluster.processes["w1"]

    def plugins() -> int:
        return sum("penstock_builtin" in process.command for process in worker.process_tree())

    cluster.until(lambda: not plugins(), READY, "plugins of other tests to end")
    flow = Flow(cluster, "processes", tasks=2)
    flow.start()
    flow.advance(50)
    assert plugins()
    reach(flow, TargetState.STOPPED)
    cluster.until(lambda: not plugins(), READY, "its plugins to end", plugins)
    flow.delete()


def test_one_name_deleted_and_created_again(cluster: Cluster) -> None:
    """S8: the second has nothing of the first: it begins at the beginning."""
    for generation in range(2):
        flow = Flow(cluster, "namesake", tasks=2)
        # one of its own: what the first has in hand when it is deleted may still be stored
        flow.ledger = cluster.folder / f"ledger-namesake-{generation}"
        flow.start()
        flow.advance(50)
        flow.delete()
        starts = {e.partition: e for e in reversed(read_ledger(flow.ledger).entries)}
        assert {entry.sequences[0][0] for entry in starts.values()} == {0}


def test_offsets_are_changed_only_when_nothing_moves(cluster: Cluster, flow: Flow) -> None:
    """O3: reset is refused while the connector runs or is paused, with a code and a fix."""
    generation = cluster.config(lambda config: config.get(flow.name)).generation
    for state in (TargetState.RUNNING, TargetState.PAUSED):
        reach(flow, state)
        with pytest.raises(PenstockError) as caught:
            cluster.offset(lambda offset: offset.reset(flow.name, generation))
        assert caught.value.code == "offset.not_stopped"
        assert caught.value.diagnostic.fix
    reach(flow, TargetState.STOPPED)
    assert len(cluster.offset(lambda offset: listing(offset, generation))) == flow.tasks
    reach(flow, TargetState.RUNNING)


def test_a_run_begins_exactly_where_its_offsets_were_set(cluster: Cluster) -> None:
    """O3: after a reset the first row comes first again."""
    flow = Flow(cluster, "set-back", tasks=2)
    flow.start()
    flow.advance(50)
    reach(flow, TargetState.STOPPED)
    generation = cluster.config(lambda config: config.get(flow.name)).generation
    before = len(read_ledger(flow.ledger).entries)
    cluster.offset(lambda offset: offset.reset(flow.name, generation))
    reach(flow, TargetState.RUNNING)
    flow.advance(50)
    again = read_ledger(flow.ledger).entries[before:]
    first = {entry.partition: entry.sequences[0][0] for entry in reversed(again)}
    assert first == {"0": 0, "1": 0}
    cluster.config(lambda config: config.delete(flow.name))


async def listing(offset: OffsetClient, generation: str) -> list[object]:
    """Return the offsets of a generation."""
    return [one async for one in offset.list(generation)]
