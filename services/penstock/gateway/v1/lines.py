"""Answers that go on: a JSON object on each line, until the end or an error, which is a line too.

A peer that reads slowly slows the call behind it; one that goes away ends it.
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

from penstock.gateway.errors import body_of, status_of
from penstock.model.errors import Diagnostic, PenstockError

log = logging.getLogger(__name__)

KIND: Final = "application/x-ndjson"

_NOBODY_THERE: Final = 499
"""Status for who has hung up: it is in the log alone."""


class Lines(StreamingResponse):
    """An answer of lines."""

    media_type = KIND


async def lines(request: Request, answers: AsyncGenerator[Mapping[str, Any], None]) -> Response:
    """Return an answer of lines. An error before the first of them is a status, as everywhere. Who
    hangs up before there is one is waited for no longer, nor is what was asked for him.

    Raises:
        PenstockError: there is no first line.
    """
    first = asyncio.ensure_future(anext(answers, None))
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({first, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not first.done():
            return Response(status_code=_NOBODY_THERE)
        if (found := first.result()) is not None:
            return Lines(_encoded(found, answers))
        return Lines(iter(()))
    except BaseException:
        await answers.aclose()
        raise
    finally:
        gone.cancel()
        if not first.done():
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            await answers.aclose()


async def _gone(request: Request) -> None:
    """Wait until nobody is there who would read an answer."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def following(answers: AsyncGenerator[Mapping[str, Any], None]) -> Lines:
    """Return an answer of lines that begins before there is a first one, which may take long. An
    error is always a line.
    """
    return Lines(_encoded(None, answers))


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
            yield _line({"error": body_of(error.diagnostic, status_of(error.diagnostic))})
        except Exception as error:
            number = secrets.token_hex(4)
            log.exception("unexpected error %s in an answer that goes on", number)
            told = Diagnostic(
                "internal.unexpected", f"{type(error).__name__}, number {number} in the log"
            )
            yield _line({"error": body_of(told, 500)})


def _line(answer: Mapping[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
