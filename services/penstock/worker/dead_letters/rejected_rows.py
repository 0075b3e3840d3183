"""How many bad rows a task may meet before one of them ends it. Pure."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from penstock.model.dead_letter import Failed, Stage
from penstock.model.errors import ConfigError, DataError, Diagnostic, PenstockError, error_of
from penstock.model.stream import BadRow, BatchReady, StreamSchema
from penstock.model.ticket import SlotReport
from penstock.worker.dead_letters.publishing import Part, Posting

log = logging.getLogger(__name__)


MAX_TOLERATED: Final = 100_000
"""Bad rows that a window may allow: their places are remembered (invariant 12)."""

_WINDOW: Final = re.compile(r"\s*(\d{1,9})\s*/\s*(\d{1,12})\s*")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """`most` bad rows among any `among` rows that follow each other; 0 of them: none at all. No
    `among`: any number.
    """

    most: int = 0
    among: int | None = 1

    @property
    def none(self) -> bool:
        """Whether the first bad row is one too many."""
        return self.among is not None and self.most == 0


NONE: Final = Tolerance()
ALL: Final = Tolerance(among=None)


def read_tolerance(text: str) -> Tolerance:
    """Return what `errors.tolerance` says: none, all, or N/M.

    Raises:
        ConfigError: `config.wrong_type`.
    """
    known = {"none": NONE, "all": ALL}.get(text.strip().lower())
    if known is not None:
        return known
    match = _WINDOW.fullmatch(text)
    most, among = (int(number) for number in match.groups()) if match else (0, 0)
    if not 0 < most < among or most > MAX_TOLERATED:
        raise ConfigError(
            "config.wrong_type",
            f"{text[:100]!r} is not how many bad rows are tolerated",
            fix="Write `none`, `all`, or `5/1000` for five among a thousand; "
            f"at most {MAX_TOLERATED:,}.",
            config_path="errors.tolerance",
        )
    return Tolerance(most, among)


class Tolerated:
    """The bad rows that one run of a task has met."""

    def __init__(self, rule: Tolerance) -> None:
        self._rule = rule
        self._latest: deque[int] = deque(maxlen=max(rule.most, 1))

    def refused(self, places: Iterable[int]) -> int | None:
        """Take bad rows by their places among all rows of the run, in order. Returns the index of
        the first that is one too many, None when all are tolerated.
        """
        rule, latest = self._rule, self._latest
        for index, place in enumerate(places):
            if rule.none:
                return index
            if rule.among is None:
                return None
            if len(latest) == rule.most and place - latest[0] < rule.among:
                return index
            latest.append(place)
        return None


LETTERS: Final = "errors.deadletterqueue."
"""Begins the keys of the place of dead letters."""

MAX_REJECTED: Final = 10_000
"""Bad rows of a micro-batch: their reasons travel through the driver, which has to stay small. A
task that meets more has another trouble than rows."""

SHOWN: Final = 20
"""Bad rows of a micro-batch that get a line of the log each; the others are counted."""


SlotDone: TypeAlias = tuple[StreamSchema, Sequence[BatchReady], SlotReport]
"""What a slot read, and what became of it."""


@dataclass(frozen=True, slots=True)
class LetterRules:
    """What is done about bad rows. `headers`: letters have Kafka Connect's; `log`: bad rows get
    lines of the log, `texts`: with the row; `skip`: they are forgotten where there are no letters.
    """

    tolerance: Tolerance = NONE
    headers: bool = False
    log: bool = False
    texts: bool = False
    skip: bool = False


def read_rules(values: Mapping[str, Any]) -> tuple[LetterRules, list[Diagnostic]]:
    """Return what the keys say, and what is wrong."""
    rules = LetterRules(
        headers=values[f"{LETTERS}context.headers.enable"],
        log=values["errors.log.enable"],
        texts=values["errors.log.include.messages"],
        skip=values["errors.skip"],
    )
    try:
        return replace(rules, tolerance=read_tolerance(values["errors.tolerance"])), []
    except ConfigError as error:
        return rules, [error.diagnostic]


class Letters:
    """Takes the bad rows of each micro-batch of a run."""

    def __init__(self, rules: LetterRules, posting: Posting | None = None) -> None:
        """`posting` writes letters; None: there is no place for them, and bad rows are skipped."""
        self._rules, self._posting = rules, posting
        self._tolerated = Tolerated(rules.tolerance)
        self._seen = 0

    @property
    def tolerant(self) -> bool:
        """Whether a bad row may be anything but the end of the task."""
        return not self._rules.tolerance.none

    @property
    def skips(self) -> bool:
        """Whether bad rows go nowhere."""
        return self._posting is None

    @property
    def logs(self) -> bool:
        """Whether bad rows get lines of the log."""
        return self._rules.log

    async def take(
        self,
        txn_id: int,
        done: Iterable[SlotDone],
        unread: Sequence[BadRow],
        lag: float,
    ) -> int:
        """Take what became of the slots of a micro-batch, in order, and the rows that could not be
        read; letters become part of its transaction. Returns how many rows failed.

        Raises:
            PenstockError: why a row failed that is one too many.
        """
        parts = [_part(*one) for one in done]
        failed = self._judged(parts, unread)
        if not failed:
            return 0
        if self._rules.log:
            self._log(parts, unread)
        if self._posting is not None:
            texts = await self._posting.send(txn_id, parts, unread, lag)
            for text in texts[:SHOWN]:
                log.error("bad row: %s", text)
        return failed

    def _judged(self, parts: Sequence[Part], unread: Sequence[BadRow]) -> int:
        why = [Failed(Stage.READ, row.reason) for row in unread]
        rows, places = [-1] * len(unread), [self._seen] * len(unread)
        for part in parts:
            why += [failed for _, failed in part.failed]
            rows += [row for row, _ in part.failed]
            places += [self._seen + max(row, 0) for row, _ in part.failed]
            self._seen += part.rows
        refused = self._tolerated.refused(places)
        if refused is not None:
            raise _one_too_many(why, rows, refused, self._rules.tolerance)
        if len(why) > MAX_REJECTED:
            raise DataError(
                "errors.too_many",
                f"{len(why)} rows of a micro-batch failed, the first: {why[0].reason.message}",
                fix="So many rows are rarely bad one by one: look at the first. "
                f"{MAX_REJECTED} in a micro-batch are the most; `batch.max.rows` makes it smaller.",
                config_path=why[0].reason.config_path,
            )
        return len(why)

    def _log(self, parts: Sequence[Part], unread: Sequence[BadRow]) -> None:
        told = [(row.dataset, Failed(Stage.READ, row.reason)) for row in unread]
        told += [(part.schema.dataset, why) for part in parts for _, why in part.failed]
        for dataset, why in told[:SHOWN]:
            log.error("bad row of %s in %s: %s", dataset, why.stage, why.reason)
        if len(told) > SHOWN:
            log.error("and %d more bad rows of this micro-batch", len(told) - SHOWN)


def _part(schema: StreamSchema, batches: Sequence[BatchReady], report: SlotReport) -> Part:
    apart = [(row, Failed(Stage.TRANSFORM, why)) for row, why in report.set_apart]
    refused = [(row, Failed(Stage.WRITE, why)) for row, why in report.rejected]
    failed = sorted((*apart, *refused), key=lambda one: one[0])
    return Part(schema, batches, report.attempt, failed)


def _one_too_many(
    why: Sequence[Failed], rows: Sequence[int], at: int, tolerance: Tolerance
) -> PenstockError:
    failed, reason = why[at], why[at].reason
    if failed.stage is Stage.READ:
        return error_of(reason)
    alike = sum(one.stage is failed.stage for one in why)
    what = {
        Stage.TRANSFORM: f"{alike} row(s) cannot be transformed",
        Stage.WRITE: f"the sink refused {alike} row(s)",
    }[failed.stage]
    allowed = "" if tolerance.none else f", {tolerance.most} of {tolerance.among} are tolerated"
    return DataError(
        reason.code or "sink.row_refused",
        f"{what}{allowed}, first row {rows[at]}: {reason.message}",
        fix=reason.fix or "Correct the row at the source, or filter it with a transform.",
        config_path=reason.config_path,
        detail=reason.detail,
        dataset=reason.dataset,
    )
