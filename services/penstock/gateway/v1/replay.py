"""`/v1/connectors/{connector}/letters/replay`: letters go the way of their rows again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from penstock.gateway import configs, documents
from penstock.gateway.clients import Asks, Services
from penstock.gateway.paths import Name
from penstock.gateway.request_body import Json, objects, plain
from penstock.gateway.routes.connectors import found_or_none, status_of
from penstock.gateway.v1 import replay_config
from penstock.gateway.v1.dead_letters import answered, marked
from penstock.gateway.v1.documents import Replay, ReplayBegun, ReplayState
from penstock.model.connector import Connector, TargetState
from penstock.model.errors import ConfigError
from penstock.model.replay import (
    MOST_LETTERS,
    LetterFound,
    LetterId,
    LetterQuery,
    read_changes,
    read_ids,
    written_ids,
)
from penstock.model.status import ConnectorStatus, RunState

routes = APIRouter(prefix="/v1/connectors/{connector}/letters", tags=["v1"])

SHOWN: Final = 100
"""Rows that a dry run shows."""

_DONE: Final = frozenset({RunState.COMPLETED, RunState.FAILED, RunState.STOPPED})
_CHOICES: Final = ("code", "stage", "dataset")


@routes.post(
    "/replay",
    responses=documents.answers(200, ReplayBegun),
    openapi_extra=documents.takes(Replay),
)
async def begin(asks: Services, connector: Name, body: Json) -> Response:
    """Replay letters that were not replayed yet: through the chain and the write end of their
    connector, by a connector beside it. With `dry_run`, tell which, and how their rows would be.
    """
    stored = await asks.config.get(connector)
    asked = _asked(stored, plain(objects(body, "the request")))
    before = await found_or_none(asks, replay_config.name_of(stored))
    if before is not None:
        replay_config.refuse_foreign(before, stored.name)
    status = await status_of(asks, before) if before else None
    chosen = await _chosen(asks, await marked(asks, asked.query, stored))
    if chosen.letters and not asked.dry_run:
        await _start(
            asks,
            before,
            status,
            replay_config.replay_of(stored, chosen.letters, asked.query.changes),
        )
    return JSONResponse(
        {
            "connector": replay_config.name_of(stored),
            "letters": written_ids(sorted(chosen.letters)),
            "count": len(chosen.letters),
            "epoch": _epoch(status),
            "replayed_before": written_ids(sorted(chosen.done)),
            "without_row": written_ids(sorted(chosen.without)),
            "rows": [
                {"id": str(letter), "row": json.loads(row)} for letter, row in chosen.rows.items()
            ],
        }
    )


@routes.get("/replay", responses=documents.answers(200, ReplayState))
async def state(asks: Services, connector: Name) -> Response:
    """Tell how far the newest replay is."""
    stored = await asks.config.get(connector)
    topic, found = (
        replay_config.letters_topic(stored),
        await asks.config.get(replay_config.name_of(stored)),
    )
    replay_config.refuse_foreign(found, stored.name)
    letters = read_ids(found.config.get("replay.letters", ""))
    done = await asks.offset.get(found.generation, [one.within(topic).id for one in letters])
    status = await status_of(asks, found)
    task = status.tasks[0] if status and status.tasks else None
    # its numbers are whole when the task has ended, which is told a moment after the last offset
    ended = len(done) == len(letters) and (task is None or task.state is RunState.COMPLETED)
    told = RunState.COMPLETED if ended else task.state if task else _state(status)
    why = (task.diagnostic if task else None) or (status.diagnostic if status else None)
    return JSONResponse(
        {
            "connector": found.name,
            "state": told.name,
            "epoch": _epoch(status),
            "letters": len(letters),
            "replayed": len(done),
            "failed_again": task.task.rows_failed if task and task.task else 0,
            "why": str(why) if why and not ended else None,
        }
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    query: LetterQuery
    dry_run: bool


@dataclass(slots=True)
class _Chosen:
    """Letters that are replayed, and those that are not."""

    letters: list[LetterId] = field(default_factory=list)
    done: list[LetterId] = field(default_factory=list)
    without: list[LetterId] = field(default_factory=list)
    rows: dict[LetterId, str] = field(default_factory=dict)

    def take(self, letter: LetterFound, *, show: bool) -> None:
        """Put a letter where it belongs."""
        if letter.replayed:
            self.done.append(letter.id)
        elif not letter.has_row:
            self.without.append(letter.id)
        else:
            self.letters.append(letter.id)
            if show and len(self.rows) < SHOWN:
                self.rows[letter.id] = letter.row


def _asked(stored: Connector, fields: Mapping[str, Any]) -> _Asked:
    """Return what a body asks for.

    Raises:
        ConfigError: `http.parameter`, `letters.none_chosen`, `letters.no_id`, `letters.bad_edit`.
    """
    texts = {name: fields.get(name, "") for name in ("ids", *_CHOICES)}
    every, edits = fields.get("set", {}), fields.get("edits", {})
    flags = {name: fields.get(name, False) for name in ("all", "dry_run")}
    right = (
        all(isinstance(text, str) for text in texts.values())
        and all(isinstance(flag, bool) for flag in flags.values())
        and isinstance(every, dict)
        and isinstance(edits, dict)
        and all(isinstance(one, dict) for one in edits.values())
    )
    if not right:
        raise ConfigError(
            "http.parameter",
            "the request is not as the document has it",
            fix='Send {"ids": "0/3,0/17-20", "set": {"amount": 12}}.',
        )
    ids = tuple(read_ids(texts["ids"] or ("" if flags["all"] else ",".join(edits))))
    chosen = [bool(ids), flags["all"], any(texts[name] for name in _CHOICES)]
    if sum(chosen) != 1:
        raise ConfigError(
            "letters.none_chosen",
            "it is not said which letters to replay, or more than once",
            fix="Name letters, or what they have in common (`code`, `stage`, `dataset`), or say "
            "`all`.",
        )
    changes = read_changes(json.dumps(every), {key: json.dumps(one) for key, one in edits.items()})
    query = LetterQuery(
        replay_config.letters_topic(stored),
        stored.name,
        ids,
        texts["stage"],
        texts["code"],
        texts["dataset"],
        limit=MOST_LETTERS,
        waiting=not ids,
        whole=flags["dry_run"],
        changes=changes,
    )
    return _Asked(query, flags["dry_run"])


async def _chosen(asks: Asks, query: LetterQuery) -> _Chosen:
    chosen, left = _Chosen(), set(query.changes.single)
    async with aclosing(answered(asks, query)) as answers:
        async for told in answers:
            for letter in told.letters:
                chosen.take(letter, show=query.whole)
                left.discard(letter.id)
    if left:
        raise ConfigError(
            "letters.bad_edit",
            f"letter {min(left)} is to be changed, and not to be replayed",
            fix="Name it, or leave its change out.",
        )
    return chosen


async def _start(
    asks: Asks, before: Connector | None, status: ConnectorStatus | None, wanted: Connector
) -> None:
    """Have a replay run. One that runs goes on first: its letters are its configuration.

    Raises:
        ConfigError: `letters.replay_runs`; what is wrong with the connector whose letters they are.
    """
    if before and before.target_state is TargetState.RUNNING and not _is_over(status):
        raise ConfigError(
            "letters.replay_runs",
            f"{before.name} replays letters just now",
            fix="Wait until it has ended, or stop it: what it has not replayed can be replayed "
            "later.",
        )
    found = await asks.config.validate(wanted)
    configs.check_findings(found.diagnostics)
    stored, _ = await asks.config.put(wanted, before.revision if before else 0)
    if stored.target_state is not TargetState.RUNNING:
        await asks.config.set_target_state(stored.name, TargetState.RUNNING)
    if before and stored.version == before.version:
        await asks.config.restart(stored.name, include_tasks=True)


def _epoch(status: ConnectorStatus | None) -> int:
    """Return the epoch of a replay's task: what is told of an older one is not about the newest."""
    return status.tasks[0].epoch if status and status.tasks else 0


def _state(status: ConnectorStatus | None) -> RunState:
    return status.state if status else RunState.UNASSIGNED


def _is_over(status: ConnectorStatus | None) -> bool:
    return status is not None and all(task.state in _DONE for task in status.tasks)
