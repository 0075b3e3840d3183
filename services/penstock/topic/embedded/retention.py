"""Rows past their retention go, whole files at a time, from the head of each partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.model import faults
from penstock.topic.embedded import actions
from penstock.topic.embedded.spec import Retention
from penstock.topic.embedded.state import Action, TopicFile, TopicState, head_key
from penstock.topic.embedded.table import TopicTable


def expire(table: TopicTable, retention: Retention, now: float) -> int:
    """Remove files past their retention, oldest first; returns how many.

    The topic's own retention goes before `retention`. Their data stays until `sweep` deletes it.
    """
    gone = 0

    def removed(state: TopicState) -> Sequence[Action] | None:
        nonlocal gone
        rule = state.spec.retention or retention
        lines: list[Action] = []
        gone = 0
        for partition, files in state.files.items():
            heads = list(expired(files, rule, now))
            if heads:
                gone += len(heads)
                lines += _lines(partition, files, heads, int(now * 1000))
        return [actions.info(int(now * 1000), "DELETE", {}), *lines] if lines else None

    table.refresh()
    if table.inspect(removed) is None:  # the rule: nothing to do, and nothing to make durable
        return 0
    faults.hit("topic.expiring")
    table.commit("topic.expire", removed)
    return gone


def expired(files: Sequence[TopicFile], rule: Retention, now: float) -> Iterator[TopicFile]:
    """Yield the files at the head of a partition that are past a retention.

    By size at least the newest file stays, by age none has to.
    """
    total = sum(file.bytes for file in files)
    for place, file in enumerate(files):
        old = rule.seconds > 0 and now - file.modified_ms / 1000 > rule.seconds
        large = 0 < rule.bytes < total and place < len(files) - 1
        if not old and not large:
            return
        total -= file.bytes
        yield file


def _lines(
    partition: int, files: Sequence[TopicFile], heads: Sequence[TopicFile], now_ms: int
) -> Iterator[Action]:
    for file in heads:
        yield actions.remove(partition, file, now_ms, rows_go=True)
    if len(heads) == len(files):
        # offsets never go back, also when no row is left that says where they are
        yield actions.transaction(head_key(partition), files[-1].end, now_ms)
