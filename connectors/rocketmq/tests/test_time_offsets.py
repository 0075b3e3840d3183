"""Offsets that people set, by time, too."""

import pytest
from penstock_rocketmq import RocketmqSource

from penstock_connector import Partition
from penstock_connector.testing import RemoteError, alter_offsets

BORN_MS = 1_700_000_000_000


@pytest.fixture
def queue(rocketmq, topic):
    """The only queue of a topic with three messages, as the key of a partition."""
    rocketmq.create_topic(topic)
    for number in range(3):
        rocketmq.send(topic, (b"%d" % number, b""))
    cluster = rocketmq.client()
    (broker,) = cluster.list_masters()
    cluster.close()
    return {"topic": topic, "broker": broker, "queue": 0}


def altered(rocketmq, key, offset):
    given = {"namesrv.addr": rocketmq.namesrv, "topics": key["topic"], **rocketmq.login}
    (found,) = alter_offsets(RocketmqSource, given, [Partition(key, offset)])
    return found.offset


def test_times_become_offsets(rocketmq, queue):
    assert altered(rocketmq, queue, {"timestamp": 0}) == {"offset": 0}
    assert altered(rocketmq, queue, {"timestamp": "2100-01-31T12:00:00Z"}) == {"offset": 3}
    assert altered(rocketmq, queue, {"offset": 2}) == {"offset": 2}
    assert altered(rocketmq, queue, None) is None


@pytest.mark.parametrize(
    ("place", "offset"),
    [({}, {"offset": 4}), ({}, {"offset": "1"}), ({"queue": "0"}, {"offset": 0}), ({}, {"row": 0})],
)
def test_offsets_that_a_queue_does_not_have_are_refused(rocketmq, queue, place, offset):
    with pytest.raises(RemoteError) as caught:
        altered(rocketmq, queue | place, offset)
    assert caught.value.code == "rocketmq.offset"
