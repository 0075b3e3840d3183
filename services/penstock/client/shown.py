"""What a worker shows of itself to those who look: tasks, rows that move, its log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.api.worker.v1 import worker_service_pb2_grpc as grpc_api
from penstock.client.call import Caller
from penstock.model.connector import TaskStatus
from penstock.model.live_rows import Looked, LookRules
from penstock.model.log_lines import Logged, LogRules
from penstock.model.replay import LetterQuery, LettersTold
from penstock.rpc.channels import Dial, open_channel
from penstock.rpc.route import Place
from penstock.telemetry.levels import LoggerLevel
from penstock.wire import letters
from penstock.wire.logs import logged_from_proto, rules_to_proto
from penstock.wire.worker import look_to_proto, looked_from_proto, status_from_proto

DEADLINE = 60.0
"""Seconds for a call: a plugin may have to be started, and may ask a database for its tables."""


class ShownWorker(Caller):
    """A worker that is looked at. Every method may raise PenstockError."""

    def __init__(self, place: Place, deadline: float = DEADLINE, dial: Dial = open_channel) -> None:
        """`place` is `unix:/path` or `host:port`, or finds such addresses; see `Caller`."""
        super().__init__(place, deadline, dial)
        self._stub = grpc_api.WorkerServiceStub(self._channel)

    async def watch_tasks(self, every: float = 0.0) -> AsyncIterator[TaskStatus]:
        """Iterate over status: every task first, then changes, and numbers each `every` seconds."""
        answers = self._stub.WatchTasks(pb.WatchTasksRequest(every_ms=round(every * 1000)))
        async for answer in self._stream("worker.watch_tasks", answers):
            yield status_from_proto(answer.task)

    async def inspect(
        self, task_id: str, rules: LookRules | None = None
    ) -> AsyncGenerator[Looked, None]:
        """Look at live rows of a task there, until so many rows or seconds are used up."""
        answers = self._stub.InspectRows(look_to_proto(task_id, rules or LookRules()))
        async for answer in self._stream("worker.inspect", answers):
            yield looked_from_proto(answer)

    async def logs(self, rules: LogRules) -> AsyncGenerator[Logged, None]:
        """Read along in the log there; without `follow`, what it has."""
        answers = self._stub.WatchLogs(rules_to_proto(rules))
        async for answer in self._stream("worker.logs", answers):
            yield logged_from_proto(answer)

    async def letters(self, query: LetterQuery) -> AsyncGenerator[LettersTold, None]:
        """Iterate over what is told of dead letters: first their counts, then some of them."""
        answers = self._stub.ReadLetters(letters.query_to_proto(query), timeout=self._deadline)
        async for answer in self._stream("worker.read_letters", answers):
            yield letters.told_from_proto(answer)

    async def set_log_level(self, logger: str, level: str) -> None:
        """Set the level of a logger in that process alone; empty takes it away."""
        request = pb.SetLogLevelRequest(logger=logger, level=level)
        await self._call("worker.set_log_level", self._stub.SetLogLevel, request)

    async def log_levels(self) -> list[LoggerLevel]:
        """Tell which loggers of that process have a level."""
        request = pb.ListLogLevelsRequest()
        answer = await self._call("worker.log_levels", self._stub.ListLogLevels, request)
        return [LoggerLevel(one.logger, one.level, one.own) for one in answer.levels]
