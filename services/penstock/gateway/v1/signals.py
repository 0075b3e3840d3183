"""`/v1/connectors/{connector}/signals`: ask a running source for something, such as to read a table
again. The source writes the signal to where its tasks read signals.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from penstock.gateway.bodies import request_body, responses
from penstock.gateway.clients import Clients
from penstock.gateway.request_input import JsonBody, PathName, to_plain
from penstock.gateway.v1.bodies import SentSignal, SignalBody
from penstock.model.admin import Signal

router = APIRouter(prefix="/v1/connectors", tags=["v1"])


@router.post(
    "/{connector}/signals",
    status_code=202,
    responses=responses(202, SentSignal),
    openapi_extra=request_body(SignalBody),
)
async def send_signal(clients: Clients, connector: PathName, body: JsonBody) -> Response:
    """Send a signal to a source. It is durable when the answer comes; the tasks obey it when they
    come to it, and say so in their log. The same `id` again changes nothing.
    """
    stored = await clients.config.get(connector)
    wanted = SignalBody.read(body)
    data: dict[str, Any] = to_plain(wanted.data)
    signal = Signal(wanted.id or str(uuid.uuid4()), wanted.type, json.dumps(data) if data else "")
    worker = await clients.workers.get_any()
    place = await worker.send_signal(stored, signal)
    return SentSignal(id=signal.id, type=signal.type, written_to=place).respond(status=202)
