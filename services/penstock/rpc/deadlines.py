"""A deadline that names its stage, so that a person knows what hung (invariant 8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.model.errors import RetriableError


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
