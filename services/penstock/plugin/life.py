"""What a link needs to know of the process at its other end, be it here or elsewhere."""

from __future__ import annotations

import asyncio
from typing import Protocol

from penstock.model.errors import PenstockError


class Life(Protocol):
    """A plugin from its start to its end. Ends once; `end` is idempotent."""

    exited: asyncio.Future[int]
    """Its end, with its exit code."""

    @property
    def pid(self) -> int:
        """Its process here; 0 for one elsewhere."""

    async def ended(self, within: float) -> bool:
        """Find out, within so many seconds, whether it ended."""

    def death(self) -> PenstockError | None:
        """Return why it ended, None while it lives."""

    async def end(self) -> None:
        """Let go of it, and leave nothing of it that is ours."""
