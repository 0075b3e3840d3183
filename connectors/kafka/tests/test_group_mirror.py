"""Offsets that a consumer group gets: those that its coordinator did not take are sent again."""

import pytest
from confluent_kafka import KafkaError
from penstock_kafka.group_mirror import GroupMirror

from penstock_connector import Partition

PARTITION = Partition({"topic": "orders", "partition": 0})


class Client:
    """Remembers what it was to commit."""

    def __init__(self):
        self.requests = []

    def commit(self, offsets, asynchronous):
        assert asynchronous
        self.requests.append(offsets)

    @property
    def sent(self):
        return [[one.offset for one in offsets] for offsets in self.requests]


@pytest.fixture
def mirror():
    return GroupMirror("connect-orders", [PARTITION])


def commit(mirror, client, offset=None):
    if offset is not None:
        mirror.add({PARTITION.id: {"offset": offset}})
    mirror.commit(client, at_end=True)


@pytest.mark.parametrize(
    "code", [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR]
)
def test_a_coordinator_that_moves_gets_the_offsets_again_without_a_word(mirror, caplog, code):
    client = Client()
    commit(mirror, client, 3)
    mirror.note(KafkaError(code), client.requests[-1])
    commit(mirror, client)
    mirror.note(None, client.requests[-1])
    commit(mirror, client)
    assert client.sent == [[3], [3]]
    assert caplog.text == ""


def test_offsets_are_never_set_back(mirror):
    """Neither one that waits nor one that was sent since is replaced by the older one."""
    client, moves = Client(), KafkaError(KafkaError.NOT_COORDINATOR)
    commit(mirror, client, 3)
    mirror.add({PARTITION.id: {"offset": 5}})
    mirror.note(moves, client.requests[0])
    commit(mirror, client)
    mirror.note(moves, client.requests[0])
    commit(mirror, client)
    assert client.sent == [[3], [5]]


def test_a_group_of_others_is_told_once_and_gets_nothing_again(mirror, caplog):
    client, refused = Client(), KafkaError(KafkaError.UNKNOWN_MEMBER_ID)
    for offset in (3, 5):
        commit(mirror, client, offset)
        mirror.note(refused, client.requests[-1])
    commit(mirror, client)
    assert client.sent == [[3], [5]]
    assert caplog.text.count("kafka.group_in_use") == 1
