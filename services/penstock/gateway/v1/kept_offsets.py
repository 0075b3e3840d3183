"""`/v1/kept-offsets`: offsets of deleted connectors that the next one of their name takes up."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from penstock.gateway.access.guard import Caller
from penstock.gateway.bodies import responses
from penstock.gateway.clients import Clients
from penstock.gateway.request_input import PathName
from penstock.gateway.v1.bodies import KeptOffsetsList, KeptOffsetsOf

router = APIRouter(prefix="/v1/kept-offsets", tags=["v1"])


@router.get("", responses=responses(200, KeptOffsetsList))
async def list_kept_offsets(clients: Clients, caller: Caller) -> Response:
    """Return the deleted connectors whose offsets are kept, ordered by name."""
    found = caller.filter_visible(await clients.config.list_kept_offsets())
    return KeptOffsetsList(kept=[KeptOffsetsOf.of(one) for one in found]).respond()


@router.delete("/{connector}", status_code=204, response_class=Response)
async def purge_kept_offsets(clients: Clients, connector: PathName) -> Response:
    """Let the next connector of a name begin anew. What the deleted one owned in external systems
    is removed.
    """
    await clients.config.purge_kept_offsets(connector)
    return Response(status_code=204)
