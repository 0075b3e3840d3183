"""A rebalance is from the first task that leaves to the last that has left."""

from penstock.model.status import ClusterStatus, Rebalances
from penstock.scheduler.state.rebalance import RebalanceTimes
from penstock.wire.scheduler import CLUSTER


def test_times_are_counted_when_they_end():
    moves = RebalanceTimes()
    for now, leaving in ((1, False), (2, True), (3, True), (6, False), (7, False)):
        moves.observe(now, leaving=leaving)
    assert moves.summary() == Rebalances(1, 4, 4)
    moves.observe(10, leaving=True)
    assert moves.summary().completed == 1, "one that goes on is not counted"
    moves.observe(12, leaving=False)
    assert moves.summary() == Rebalances(2, 3, 4)


def test_nothing_moved_yet():
    assert RebalanceTimes().summary() == Rebalances()


def test_they_cross_the_wire():
    status = ClusterStatus("s", 1, rebalances=Rebalances(2, 3.5, 4))
    assert CLUSTER.from_proto(CLUSTER.to_proto(status)) == status
