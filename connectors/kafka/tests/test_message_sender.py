"""Messages are handed to the client in order, none twice, also while it has no room."""

import pyarrow as pa
import pytest
from penstock_kafka.message_sender import MessageSender
from penstock_kafka.messages import produce_arguments

from penstock_connector import ConfigError, RetriableError
from penstock_connector.messages import MESSAGE_SCHEMA

NONE = [None] * 3


class Client:
    """A producer that holds `room` messages, and whose brokers take them when it is polled."""

    def __init__(self, room: int, *, stuck: bool = False) -> None:
        self.room, self.stuck = room, stuck
        self.held, self.sent, self.refused = [], [], 0

    def produce(self, topic, value, key=None, partition=-1, call=None, _=None, at=0, headers=None):
        if len(self.held) >= self.room:
            self.refused += 1
            raise BufferError
        self.held.append((topic, value, key, partition, call, at, headers))

    def poll(self, timeout):
        if not self.stuck:
            self.sent.append(self.held.pop(0)) if self.held else None

    def flush(self, timeout):
        while self.held and not self.stuck:
            self.poll(timeout)
        return len(self.held)

    def __len__(self):
        return len(self.held)


def messages(values, keys=NONE, times=NONE, headers=NONE, **more):
    columns = [keys, values, times, headers]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, MESSAGE_SCHEMA, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=MESSAGE_SCHEMA)
    for name, column in more.items():
        batch = batch.append_column(name, column)
    return batch


@pytest.mark.parametrize("room", [1, 3, 7, 100])
def test_a_client_without_room_is_waited_for_and_gets_each_message_once_in_order(room):
    client = Client(room)
    values = [b"%d" % number for number in range(20)]
    sender = MessageSender(client)
    sender.send("t", messages(values, *([None] * 20 for _ in range(3))))
    sender.flush()
    assert [one[1] for one in client.sent] == values
    assert bool(client.refused) is (room < 20)


def test_brokers_that_take_nothing_are_told(monkeypatch):
    monkeypatch.setattr("penstock_kafka.message_sender.DELIVERY_TIMEOUT_S", 0.05)
    sender = MessageSender(Client(2, stuck=True))
    with pytest.raises(RetriableError, match=r"kafka\.not_delivered.*2 messages"):
        sender.send("t", messages([b"a", b"b", b"c"]))
    with pytest.raises(RetriableError, match=r"kafka\.not_delivered"):
        sender.flush()


def test_a_message_that_the_client_can_never_hold_is_told_at_once():
    with pytest.raises(ConfigError, match=r"producer\.buffer\.memory"):
        MessageSender(Client(0)).send("t", messages([b"a", b"b", b"c"]))


def test_arguments_that_say_nothing_are_left_out():
    assert len(produce_arguments(messages([b"a", None, b"c"]), {})) == 1
    values, keys = produce_arguments(messages([b"a", None, b"c"], [b"k", None, b""]), {})
    assert (values, keys) == ([b"a", None, b"c"], [b"k", None, b""])


def test_every_part_of_a_message_has_its_argument():
    client, call = Client(9), print
    headers = [[("h", b"1"), ("h", None)], None, []]
    partitions = pa.array([2, None, 0], pa.int32())
    batch = messages([b"a", b"b", b"c"], NONE, [None, 5, 6], headers, partition=partitions)
    columns = produce_arguments(batch, {1: call})
    list(map(client.produce, ["t"] * 3, *columns))
    assert client.held == [
        ("t", b"a", None, 2, None, 0, [("h", b"1"), ("h", None)]),
        ("t", b"b", None, -1, call, 5, None),
        ("t", b"c", None, 0, None, 6, []),
    ]
