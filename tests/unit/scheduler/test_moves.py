"""A rebalance is from the first task that leaves to the last that has left."""

from penstock.model.status import ClusterStatus, Rebalances
from penstock.scheduler.state.rounds import Moves
from penstock.wire.scheduler import cluster_from_proto, cluster_to_proto


def test_times_are_counted_when_they_end():
    moves = Moves()
    for now, leaving in ((1, False), (2, True), (3, True), (6, False), (7, False)):
        moves.note(now, leaving=leaving)
    assert moves.so_far() == Rebalances(1, 4, 4)
    moves.note(10, leaving=True)
    assert moves.so_far().completed == 1, "one that goes on is not counted"
    moves.note(12, leaving=False)
    assert moves.so_far() == Rebalances(2, 3, 4)


def test_nothing_moved_yet():
    assert Moves().so_far() == Rebalances()


def test_they_cross_the_wire():
    status = ClusterStatus("s", 1, rebalances=Rebalances(2, 3.5, 4))
    assert cluster_from_proto(cluster_to_proto(status)) == status
