"""A deadline that names its stage, so that a person knows what hung (invariant 8)."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar, cast

from penstock.model.errors import RetriableError

_Call = TypeVar("_Call", bound=Callable[..., Any])


@asynccontextmanager
async def deadline(stage: str, seconds: float) -> AsyncIterator[None]:
    """Cancel what runs inside after a time.

    Raises:
        RetriableError: `deadline.exceeded`, naming the stage. The outcome of the work is unknown.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():  # another timeout, of the work itself
            raise
        raise exceeded(stage, seconds) from error


def exceeded(stage: str, seconds: float) -> RetriableError:
    """Return the error of a stage that took too long."""
    return RetriableError(
        "deadline.exceeded",
        f"stage {stage} took longer than {seconds:g} s",
        fix="See whether what it waits for is reachable and not overloaded.",
    )


def within(seconds: float) -> Callable[[_Call], _Call]:
    """Bound a method that answers once, also for callers that name no deadline."""

    def _bound(method: _Call) -> _Call:
        @functools.wraps(method)
        async def _bounded(self: Any, request: Any, context: Any) -> Any:
            async with deadline(_stage(self, method), seconds):
                return await method(self, request, context)

        return cast("_Call", _bounded)

    return _bound


def stepwise(seconds: float) -> Callable[[_Call], _Call]:
    """Bound each answer of a method that streams: it may take long, and may not hang."""

    def _bound(method: _Call) -> _Call:
        @functools.wraps(method)
        async def _bounded(self: Any, request: Any, context: Any) -> AsyncIterator[Any]:
            async with aclosing(method(self, request, context)) as answers:
                while True:
                    async with deadline(_stage(self, method), seconds):
                        try:
                            answer = await anext(answers)
                        except StopAsyncIteration:
                            return
                    yield answer

        return cast("_Call", _bounded)

    return _bound


def _stage(service: Any, method: Callable[..., Any]) -> str:
    return f"{type(service).__name__}.{method.__name__}"
