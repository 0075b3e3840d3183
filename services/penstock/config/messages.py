"""Messages of the wire ↔ what the config service stores: plans stay the bytes they came in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from penstock.api.config.v1 import config_service_pb2 as pb
from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.config.connectors import MOST_PAGE, ConnectorPage
from penstock.config.stored import Stored
from penstock.config.validation import Validated
from penstock.model.connector import Restart
from penstock.model.errors import ConfigError
from penstock.wire import error
from penstock.wire.config import connector_to_proto

MOST_PAGE_BYTES: Final = 1 << 20
"""Bytes of one message with plans, beside a single large plan."""

_LONGEST_TOKEN: Final = 256


def connector(stored: Stored) -> pb.Connector:
    """Return the message for a stored connector."""
    return connector_to_proto(stored.connector, stored.updated_at)


def validated(found: Validated) -> pb.ValidateConnectorResponse:
    """Return the message for findings."""
    return pb.ValidateConnectorResponse(
        diagnostics=map(error.to_proto, found.diagnostics),
        kind=int(found.kind),  # type: ignore[arg-type] # enums share numbers
        secret_keys=found.secret_keys,
    )


def page(found: ConnectorPage) -> pb.ListConnectorsResponse:
    """Return the message for a page; the name of its last connector is where the next begins."""
    names = [stored.connector.name for stored in found.connectors]
    return pb.ListConnectorsResponse(
        connectors=map(connector, found.connectors),
        revision=found.revision,
        next_page_token=names[-1] if found.more and names else "",
    )


def place(token: str) -> str:
    """Return where a page begins.

    Raises:
        ConfigError: `config.page_token`.
    """
    if len(token) > _LONGEST_TOKEN:
        raise ConfigError(
            "config.page_token",
            "the page token is none of ours",
            fix="Pass the next_page_token of the page before, or nothing.",
        )
    return token


def size(wanted: int) -> int:
    """Return how many connectors a page has."""
    return min(wanted or MOST_PAGE, MOST_PAGE)


def restart(request: pb.RequestRestartRequest) -> Restart:
    """Return the restart that is asked for; its marker is given when it is stored."""
    return Restart(0, request.include_tasks, request.only_failed, request.task_id)


def plan(body: bytes, epoch: int) -> pb.StoredTaskPlan:
    """Return the message for a stored plan."""
    return pb.StoredTaskPlan(plan=connector_pb.TaskPlan.FromString(body), epoch=epoch)


async def plan_pages(
    plans: AsyncIterator[bytes], epoch: int
) -> AsyncIterator[pb.StreamTaskPlansResponse]:
    """Return messages of bounded size for plans."""
    answer, bytes_ = pb.StreamTaskPlansResponse(), 0
    async for body in plans:
        bytes_ += len(body)
        if bytes_ > MOST_PAGE_BYTES and answer.plans:
            yield answer
            answer, bytes_ = pb.StreamTaskPlansResponse(), len(body)
        answer.plans.append(plan(body, epoch))
    if answer.plans:
        yield answer


async def uploaded_tasks(
    requests: AsyncIterator[pb.UploadTaskPlansRequest],
) -> tuple[str, str, AsyncIterator[tuple[str, bytes]]]:
    """Return whose plans an upload brings, and the plans as they come.

    Raises:
        ConfigError: `config.empty_upload`.
    """
    first = await anext(requests, None)
    if first is None:
        raise ConfigError(
            "config.empty_upload",
            "the upload has no message",
            fix="Send at least one, which names the connector.",
        )

    async def _tasks() -> AsyncIterator[tuple[str, bytes]]:
        for one in first.plans:
            yield one.task_id, one.SerializeToString()
        async for request in requests:
            for one in request.plans:
                yield one.task_id, one.SerializeToString()

    return first.name, first.generation, _tasks()
