"""`/v1/connectors/{connector}/letters/replay`: replays of dead letters.

A replay is a connector of its own (`connector_config/dead_letters.py`).
"""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response

from penstock.connector_config.dead_letters import dead_letter_topic, replay_connector, replay_name
from penstock.connector_config.keys import REPLAY_OF
from penstock.connector_config.validation import store_connector
from penstock.gateway.bodies import request_body, responses
from penstock.gateway.clients import Clients, ServiceClients
from penstock.gateway.request_input import JsonBody, PathName
from penstock.gateway.routes.connectors import find_connector, find_status, require_valid
from penstock.gateway.v1.bodies import NotReplayed, Replay, ReplayedRow, ReplayStarted, ReplayState
from penstock.gateway.v1.dead_letters import mark_replayed, raw_body, read_dead_letters
from penstock.model.connector import Connector, TargetState
from penstock.model.dead_letter_queue import (
    MAX_DEAD_LETTERS,
    DeadLetter,
    DeadLetterId,
    DeadLetterQuery,
    format_ids,
    parse_edits,
    parse_ids,
)
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.status import ConnectorStatus, RunState

router = APIRouter(prefix="/v1/connectors/{connector}/letters", tags=["v1"])

MAX_SHOWN_ROWS: Final = 100
"""Rows in the response of a dry run."""

_ENDED_STATES: Final = frozenset({RunState.COMPLETED, RunState.FAILED, RunState.STOPPED})


@router.post(
    "/replay",
    responses=responses(200, ReplayStarted),
    openapi_extra=request_body(Replay),
)
async def start_replay(clients: Clients, connector: PathName, body: JsonBody) -> Response:
    """Replay dead letters that were not replayed yet, through the transforms and the sink of their
    connector. With `dry_run`, only return which dead letters and what their rows would be.
    """
    stored = await clients.config.get(connector)
    requested = Replay.read(body)
    query = _query(stored, requested)
    before = await find_connector(clients, replay_name(stored))
    if before is not None:
        refuse_other_connector(before, stored.name)
    status = await find_status(clients, before) if before else None
    selection = await _select(clients, await mark_replayed(clients, query, stored))
    rows = selection.rows if requested.dry_run else {}
    if selection.letters and not requested.dry_run:
        await run_replay(
            clients,
            before,
            status,
            replay_connector(stored, selection.letters, query.edits),
        )
    return ReplayStarted(
        connector=replay_name(stored),
        letters=format_ids(sorted(selection.letters)),
        count=len(selection.letters),
        epoch=_epoch(status),
        replayed_before=format_ids(sorted(selection.replayed)),
        not_replayed=format_ids(sorted(selection.refused)),
        reasons=[_not_replayed(letter, why) for letter, why in selection.reasons[:MAX_SHOWN_ROWS]],
        rows=[
            ReplayedRow(id=str(id_), row=json.loads(one.row), raw=_raw_text(one))
            for id_, one in rows.items()
        ],
    ).respond()


@router.get("/replay", responses=responses(200, ReplayState))
async def get_replay_state(clients: Clients, connector: PathName) -> Response:
    """Return the progress of the newest replay."""
    stored = await clients.config.get(connector)
    topic = dead_letter_topic(stored)
    found = await clients.config.get(replay_name(stored))
    refuse_other_connector(found, stored.name)
    letters = parse_ids(found.config.get("replay.letters", ""))
    replayed = await clients.offset.get(
        found.generation, [one.to_partition(topic).id for one in letters]
    )
    status = await find_status(clients, found)
    task = status.tasks[0] if status and status.tasks else None
    # the metrics are final when the task has completed, which is shortly after the last offset
    ended = len(replayed) == len(letters) and (task is None or task.state is RunState.COMPLETED)
    state = RunState.COMPLETED if ended else task.state if task else _state(status)
    why = (task.diagnostic if task else None) or (status.diagnostic if status else None)
    return ReplayState(
        connector=found.name,
        state=state.name,
        epoch=_epoch(status),
        letters=len(letters),
        replayed=len(replayed),
        failed_again=task.task.rows_failed if task and task.task else 0,
        why=str(why) if why and not ended else None,
    ).respond()


@dataclass(slots=True)
class _Selection:
    """Dead letters to replay, and those that cannot be replayed. `rows` are those of the first."""

    letters: list[DeadLetterId] = field(default_factory=list)
    replayed: list[DeadLetterId] = field(default_factory=list)
    refused: list[DeadLetterId] = field(default_factory=list)
    reasons: list[tuple[DeadLetter, Diagnostic]] = field(default_factory=list)
    rows: dict[DeadLetterId, DeadLetter] = field(default_factory=dict)

    def take(self, letter: DeadLetter) -> None:
        """Add a dead letter to its group."""
        if letter.replayed:
            self.replayed.append(letter.id)
        elif not letter.has_row:
            self.refused.append(letter.id)
            if len(self.reasons) < MAX_SHOWN_ROWS:
                self.reasons.append((letter, letter.unparsed or _no_row(letter.id)))
        else:
            self.letters.append(letter.id)
            if len(self.rows) < MAX_SHOWN_ROWS:
                self.rows[letter.id] = letter


def _query(stored: Connector, requested: Replay) -> DeadLetterQuery:
    """Return the query for the dead letters that a request selects.

    Raises:
        ConfigError: `letters.none_chosen`, `letters.no_id`, `letters.bad_edit`.
    """
    edits = {key: json.dumps(one) for key, one in requested.edits.items()}
    ids = tuple(parse_ids(requested.ids or ("" if requested.all else ",".join(edits))))
    has_filter = any((requested.code, requested.stage, requested.dataset))
    if sum((bool(ids), requested.all, has_filter)) != 1:
        raise ConfigError(
            "letters.none_chosen",
            "expected one selection of dead letters, found none or several",
            fix="Send either `ids`, or `code`, `stage` and `dataset`, or `all`.",
        )
    return DeadLetterQuery(
        dead_letter_topic(stored),
        stored.name,
        ids,
        requested.stage,
        requested.code,
        requested.dataset,
        limit=MAX_DEAD_LETTERS,
        waiting=not ids,
        whole=requested.dry_run,
        edits=parse_edits(json.dumps(requested.set), edits),
        parse_as=stored,
    )


async def _select(clients: ServiceClients, query: DeadLetterQuery) -> _Selection:
    selection, left = _Selection(), set(query.edits.by_id)
    async with aclosing(read_dead_letters(clients, query)) as answers:
        async for part in answers:
            for letter in part.letters:
                selection.take(letter)
                left.discard(letter.id)
    if left:
        raise ConfigError(
            "letters.bad_edit",
            f"`edits` has dead letter {min(left)}, which is not selected for the replay",
            fix="Add it to `ids`, or remove its edit.",
        )
    return selection


async def run_replay(
    clients: ServiceClients,
    before: Connector | None,
    status: ConnectorStatus | None,
    replay: Connector,
) -> None:
    """Start a replay. A running one must end first, because its configuration has its dead letters.

    Raises:
        ConfigError: `letters.replay_runs`; or an error in the configuration of the replay.
    """
    if before and before.target_state is TargetState.RUNNING and not _has_ended(status):
        raise ConfigError(
            "letters.replay_runs",
            f"{before.name} is replaying dead letters",
            fix="Wait until it has completed, or stop it and replay the remaining dead letters "
            "later.",
        )
    valid = await require_valid(clients, replay)
    stored = await store_connector(clients.config, valid, before.revision if before else 0)
    if before and stored.version == before.version:
        await clients.config.request_restart(stored.name, include_tasks=True)


def _no_row(letter: DeadLetterId) -> Diagnostic:
    return ConfigError(
        "letters.no_row",
        f"dead letter {letter} has neither a row nor bytes that a source could parse",
        fix="Correct the row where it comes from.",
        config_path="replay.letters",
    ).diagnostic


def _not_replayed(letter: DeadLetter, why: Diagnostic) -> NotReplayed:
    message, raw = why.message, _raw_text(letter)
    return NotReplayed(id=str(letter.id), code=why.code, message=message, fix=why.fix, raw=raw)


def _raw_text(letter: DeadLetter) -> str | None:
    """Return the bytes that the source could not read, where they are text."""
    return raw_body(letter.raw)["raw"]


def _epoch(status: ConnectorStatus | None) -> int:
    """Return the epoch of the task of a replay. An older epoch belongs to an older replay."""
    return status.tasks[0].epoch if status and status.tasks else 0


def _state(status: ConnectorStatus | None) -> RunState:
    return status.state if status else RunState.UNASSIGNED


def _has_ended(status: ConnectorStatus | None) -> bool:
    return status is not None and all(task.state in _ENDED_STATES for task in status.tasks)


def refuse_other_connector(found: Connector, of: str) -> None:
    """Refuse a connector with the name of a replay that is not the replay of connector `of`.

    Raises:
        ConfigError: `letters.name_taken`.
    """
    if found.config.get(REPLAY_OF) != of:
        raise ConfigError(
            "letters.name_taken",
            f"{found.name} has the name of the replay of {of}, but is another connector",
            fix="Rename that connector.",
        )
