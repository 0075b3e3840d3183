"""Streamed responses: a JSON object on each line. An error after the first line is a line, too.

A client that reads slowly slows down the call behind the response. When it disconnects, the call
ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Final

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from penstock.aio import cancel_and_wait, wait_for_first
from penstock.gateway.errors import error_body, http_status
from penstock.model.errors import Diagnostic, PenstockError

log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/x-ndjson"

_CLIENT_CLOSED_REQUEST: Final = 499
"""Status of a request whose client has disconnected. It is only logged."""


class NdjsonResponse(StreamingResponse):
    """A response of JSON lines."""

    media_type = MEDIA_TYPE


async def stream_lines(
    request: Request, answers: AsyncGenerator[Mapping[str, Any], None]
) -> Response:
    """Return a response of lines, once the first line is known.

    An error before the first line has its HTTP status. When the client disconnects before the first
    line, the call behind it is cancelled.

    Raises:
        PenstockError: the error before the first line.
    """
    first = asyncio.ensure_future(anext(answers, None))
    gone = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await wait_for_first(first, gone)
        if not first.done():
            return Response(status_code=_CLIENT_CLOSED_REQUEST)
        if (found := first.result()) is not None:
            return NdjsonResponse(_encoded(found, answers))
        return NdjsonResponse(iter(()))
    except BaseException:
        await answers.aclose()
        raise
    finally:
        gone.cancel()
        if not first.done():
            await cancel_and_wait(first)
            await answers.aclose()


async def _wait_for_disconnect(request: Request) -> None:
    """Wait until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def stream_later(answers: AsyncGenerator[Mapping[str, Any], None]) -> NdjsonResponse:
    """Return a response of lines that starts before the first line, which may take long.

    An error is always a line.
    """
    return NdjsonResponse(_encoded(None, answers))


async def _encoded(
    first: Mapping[str, Any] | None, answers: AsyncGenerator[Mapping[str, Any], None]
) -> AsyncIterator[bytes]:
    async with aclosing(answers):
        if first is not None:
            yield _line(first)
        try:
            async for answer in answers:
                yield _line(answer)
        except PenstockError as error:
            body = error_body(error.diagnostic, http_status(error.diagnostic))
            yield _line({"error": body.to_json()})
        except Exception as error:
            number = secrets.token_hex(4)
            log.exception("unexpected error %s in a streamed response", number)
            diagnostic = Diagnostic(
                "internal.unexpected", f"{type(error).__name__}, number {number} in the log"
            )
            yield _line({"error": error_body(diagnostic, 500).to_json()})


def _line(answer: Mapping[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
