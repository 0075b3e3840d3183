"""A queue that is read by many pulls at once: each message once, in order, or an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock_rocketmq.cluster import Queue
from penstock_rocketmq.frames import Answer, ProtocolError, Response
from penstock_rocketmq.queue_reader import (
    OffsetBeyondEndError,
    Pull,
    QueueReader,
    UnexpectedAnswerError,
)

DEPTH = 4


def reader_at(offset, *, is_filtered=False):
    return QueueReader("t", Queue("b", 0), offset, is_filtered=is_filtered)


def answer(code, following, low=0, high=0, body=b""):
    fields = {"nextBeginOffset": following, "minOffset": low, "maxOffset": high}
    return Response(1, code, "", {name: str(value) for name, value in fields.items()}, body)


class Broker:
    """A queue of messages that are a byte each; some pulls end early, as those of large ones do."""

    def __init__(self, high, low=0, has=lambda _: True):
        self.low, self.high, self.has = low, high, has

    def pull(self, pull, limit):
        begin = pull.begin
        if begin > self.high:
            return answer(Answer.PULL_OFFSET_MOVED, self.high, self.low, self.high)
        if begin < self.low:
            return answer(Answer.PULL_OFFSET_MOVED, self.low, self.low, self.high)
        if begin == self.high:
            return answer(Answer.PULL_NOT_FOUND, begin, self.low, self.high)
        end = min(pull.end, begin + limit, self.high)
        body = bytes(at % 256 for at in range(begin, end) if self.has(at))
        code = Answer.SUCCESS if body else Answer.PULL_RETRY_IMMEDIATELY
        return answer(code, end, self.low, self.high, body)


def read_all(reader, broker, choose, limit):
    """Answer pulls in any order until the queue is read to its end; return the pieces."""
    flying, pieces = [], []
    for _ in range(10_000):
        flying += reader.due(DEPTH)
        assert len(flying) <= DEPTH + 1
        if not reader.is_behind and [pull.begin for pull in flying] == [broker.high]:
            return pieces
        pull = flying.pop(choose(len(flying)))
        pull.response = broker.pull(pull, limit(pull))
        reader.advance()
        pieces += reader.take(10**9)
    raise AssertionError("it never comes to the end")


@given(st.data(), st.integers(0, 300), st.integers(0, 300))
def test_each_message_is_read_once_and_in_order(data, begin, more):
    broker = Broker(begin + more)
    pieces = read_all(
        reader_at(begin),
        broker,
        lambda count: data.draw(st.integers(0, count - 1)),
        lambda _: data.draw(st.sampled_from([1, 5, 8, 32, 32, 32])),
    )
    found = b"".join(piece.data for piece in pieces)
    assert found == bytes(at % 256 for at in range(begin, begin + more))
    assert [piece.begin for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]


def test_twin_without_a_pull_for_the_rest_messages_are_left_out(monkeypatch):
    import penstock_rocketmq.queue_reader as module

    class Careless(module.deque):
        def appendleft(self, _pull):
            """Forget what an answer did not have."""

    monkeypatch.setattr(module, "deque", Careless)
    pieces = read_all(reader_at(0), Broker(300), lambda _: 0, lambda _: 8)
    assert b"".join(piece.data for piece in pieces) != bytes(at % 256 for at in range(300))


@given(st.data(), st.integers(1, 300))
def test_with_tags_the_others_are_passed_over(data, high):
    wanted = data.draw(st.sets(st.integers(0, high - 1)))
    reader = reader_at(0, is_filtered=True)
    limit = data.draw(st.sampled_from([1, 7, 32]))
    pieces = read_all(reader, Broker(high, has=wanted.__contains__), lambda _: 0, lambda _: limit)
    assert b"".join(piece.data for piece in pieces) == bytes(at % 256 for at in sorted(wanted))
    assert not any(piece.is_lost for piece in pieces)


def test_messages_that_retention_removed_are_a_lost_piece():
    pieces = read_all(reader_at(3), Broker(12, low=10), lambda _: 0, lambda _: 32)
    assert [(one.begin, one.end, one.is_lost) for one in pieces] == [
        (3, 10, True),
        (10, 12, False),
    ]


def test_messages_that_vanish_while_they_are_read_are_a_lost_piece():
    reader = reader_at(0)
    (pull,) = reader.due(DEPTH)
    pull.response = answer(Answer.PULL_RETRY_IMMEDIATELY, 5, 0, 9)  # MESSAGE_WAS_REMOVING
    reader.advance()
    assert [(one.begin, one.end, one.is_lost) for one in reader.take(100)] == [(0, 5, True)]


def test_what_was_pulled_is_left_out_when_reading_goes_on_elsewhere():
    reader, broker = reader_at(3), Broker(12, low=10)
    for _ in range(2):
        for pull in list(reader.due(1)):
            pull.response = broker.pull(pull, 32)
        reader.advance()
    assert reader.take(1)[0].is_lost
    reader.move(reader.end)
    assert reader.take(1) == []
    assert [(one.begin, one.waits) for one in reader.due(1)] == [(12, True)]


def test_an_offset_beyond_the_end_is_an_error():
    reader = reader_at(9)
    (pull,) = reader.due(DEPTH)
    pull.response = Broker(5).pull(pull, 32)
    with pytest.raises(OffsetBeyondEndError, match="offsets 0 to 5, and 9 is the next"):
        reader.advance()


def test_a_group_that_somebody_moves_moves_nothing_here():
    reader = reader_at(4)
    (pull,) = reader.due(DEPTH)
    pull.response = answer(Answer.PULL_OFFSET_MOVED, 1, 0, 9)
    reader.advance()
    assert [one.begin for one in reader.due(1)] == [4]


def test_after_a_lost_connection_it_begins_at_what_it_has():
    reader, broker = reader_at(0), Broker(200)
    for pull in list(reader.due(1)):
        pull.response = broker.pull(pull, 32)
    reader.advance()
    assert len(list(reader.due(DEPTH))) == DEPTH
    reader.reset()
    assert [one.begin for one in reader.due(DEPTH)] == [32, 64, 96, 128]


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (answer(Answer.SUCCESS, 0, body=b"x"), ProtocolError),  # it goes on where it began
        (answer(Answer.SUCCESS, 5), ProtocolError),  # and has no messages
        (Response(1, Answer.SUCCESS, "", {}, b"x"), ProtocolError),
        (Response(1, Answer.NO_PERMISSION, "no", {}, b""), UnexpectedAnswerError),
    ],
)
def test_answers_that_cannot_be_are_errors(response, error):
    reader = reader_at(0)
    (pull,) = reader.due(1)
    assert isinstance(pull, Pull)
    pull.response = response
    with pytest.raises(error):
        reader.advance()
