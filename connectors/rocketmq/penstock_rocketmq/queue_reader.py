"""One queue that is read: which pulls are due, and what their answers mean. Pure.

A broker gives 32 messages a pull, whatever is asked for. So several pulls are in flight, each for
the offsets behind the one before, up to the last known end; the one at the end waits
there for messages. Answers count in the order of offsets. One that ends early, because messages are
large or on disk, is followed by a pull for the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from penstock_rocketmq.cluster import Queue
from penstock_rocketmq.frames import Answer, ProtocolError, Response

MAX_PULLED: Final = 32
"""Messages of a pull (`maxTransferCountOnMessageInMemory` of brokers)."""


@dataclass(slots=True, eq=False)
class Pull:
    """A pull for the offsets from `begin` up to `end`.

    Attributes:
        waits: Whether it waits at the broker until there are messages.
        is_sent: Whether it is in flight.
        response: Its answer.
    """

    begin: int
    end: int
    waits: bool = False
    is_sent: bool = False
    response: Response | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """Messages of the offsets from `begin` up to `end`, as pulled. With tags, not of all of them.

    Attributes:
        is_lost: Whether the broker has none of these offsets any more.
    """

    begin: int
    end: int
    data: bytes
    is_lost: bool = False


class OffsetBeyondEndError(Exception):
    """The queue ends before the offset that was to be read."""


class QueueReader:
    """The state of a queue.

    Attributes:
        topic: Its topic.
        queue: Its broker and number.
        pieces: What was pulled and not taken yet.
        buffered_bytes: Bytes of `pieces`.
        end: The offset behind its last message, as the broker last returned it.
    """

    def __init__(self, topic: str, queue: Queue, offset: int, *, is_filtered: bool) -> None:
        self.topic, self.queue = topic, queue
        self.pieces: deque[Piece] = deque()
        self.buffered_bytes = 0
        self._next = offset
        self.end = 0
        self._size = MAX_PULLED
        self._is_filtered = is_filtered
        self._pulls: deque[Pull] = deque()

    @property
    def is_behind(self) -> bool:
        """Whether there are messages that are on their way, or could be."""
        return self._next < self.end

    def has_given(self, end: int) -> bool:
        """Return whether all messages before an offset were taken."""
        return not self.pieces and self._next >= end

    @property
    def buffered_rows(self) -> int:
        """About how many messages `pieces` have."""
        return sum(piece.end - piece.begin for piece in self.pieces)

    def due(self, depth: int) -> Iterator[Pull]:
        """Yield the pulls that are to be sent, with at most `depth` in flight."""
        for pull in self._pulls:
            if not pull.is_sent:
                pull.is_sent = True
                yield pull
        while len(self._pulls) < (1 if self._is_filtered else depth):
            begin = self._pulls[-1].end if self._pulls else self._next
            is_end = begin >= self.end
            if is_end and self._pulls:
                return
            end = begin + self._size if is_end else min(begin + self._size, self.end)
            pull = Pull(begin, end, waits=is_end, is_sent=True)
            self._pulls.append(pull)
            yield pull

    def reset(self) -> None:
        """Forget what is in flight: the connection is gone."""
        self._pulls.clear()

    def move(self, offset: int) -> None:
        """Go on at another offset, without what was pulled already."""
        self._pulls.clear()
        self.pieces.clear()
        self.buffered_bytes = 0
        self._next = offset

    def take(self, max_rows: int) -> list[Piece]:
        """Return pieces that were pulled, with about so many messages. A lost one comes alone."""
        taken: list[Piece] = []
        rows = 0
        while self.pieces and rows < max_rows:
            if taken and self.pieces[0].is_lost:
                break
            piece = self.pieces.popleft()
            self.buffered_bytes -= len(piece.data)
            rows += piece.end - piece.begin
            taken.append(piece)
            if piece.is_lost:
                break
        return taken

    def put_back(self, piece: Piece) -> None:
        """Keep what was taken and not used."""
        self.pieces.appendleft(piece)
        self.buffered_bytes += len(piece.data)

    def advance(self) -> None:
        """Make pieces of the answers that are there.

        Raises:
            OffsetBeyondEndError: the queue ends before the offset.
            UnexpectedAnswerError: the broker refused the pull.
            ProtocolError: the answer is none to a pull.
        """
        while self._pulls and (response := self._pulls[0].response) is not None:
            self._apply(self._pulls.popleft(), response)

    def _apply(self, pull: Pull, response: Response) -> None:
        if response.code not in _UNDERSTOOD:
            raise UnexpectedAnswerError(response)
        following = response.number("nextBeginOffset")
        low, self.end = response.number("minOffset"), response.number("maxOffset")
        match response.code:
            case Answer.SUCCESS:
                if following <= pull.begin or not response.body:
                    raise ProtocolError(f"a pull at {pull.begin} goes on at {following}")
                self._keep(pull, Piece(pull.begin, following, response.body))
            case Answer.PULL_OFFSET_MOVED if pull.begin > self.end:
                raise OffsetBeyondEndError(
                    f"the queue has the offsets {max(low, 0)} to {self.end}, and {pull.begin} is "
                    "the next one to be read"
                )
            case Answer.PULL_OFFSET_MOVED:
                if pull.begin >= low:  # an operator moved the group whose name is used
                    self._pulls.clear()
                else:
                    self._keep(pull, Piece(pull.begin, low, b"", is_lost=True))
            case _ if following > pull.begin:
                is_lost = not self._is_filtered
                self._keep(pull, Piece(pull.begin, following, b"", is_lost))
            case _ if self._pulls:  # nothing there, where the end was said to be further on
                self._pulls.clear()

    def _keep(self, pull: Pull, piece: Piece) -> None:
        self.pieces.append(piece)
        self.buffered_bytes += len(piece.data)
        self._next = piece.end
        if piece.end > pull.end:
            self._pulls.clear()
        elif piece.end < min(pull.end, self.end):
            self._size = max(piece.end - piece.begin, 1)
            if self._pulls:
                self._pulls.appendleft(Pull(piece.end, pull.end))
        else:
            self._size = min(self._size * 2, MAX_PULLED)


class UnexpectedAnswerError(Exception):
    """A broker refused a pull."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.remark)
        self.response = response


_UNDERSTOOD: Final = frozenset(
    {
        Answer.SUCCESS,
        Answer.PULL_NOT_FOUND,
        Answer.PULL_RETRY_IMMEDIATELY,
        Answer.PULL_OFFSET_MOVED,
    }
)
