"""Tells a source what is durable. What it waits for is told until it says that it knows
(invariant 2).

A source that hands a snapshot over gives nothing more until it was told; when that message is lost,
by a defect anywhere on the way, the task would look as if it ran and move nothing for ever.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from penstock.model import faults
from penstock.model.errors import InternalError

AGAIN: Final = 2.0
"""Seconds until a source that waits is told again. Longer is felt by whoever waits for rows."""

GIVE_UP: Final = 25.0
"""Seconds after which a source that never confirms fails its task: within half a minute a person
sees FAILED, not a task that seems to run."""


class Told(Protocol):
    """What is needed of a read end."""

    @property
    def confirms(self) -> bool:
        """Whether the source says what it was told."""

    async def committed(self, checkpoint_id: int) -> None:
        """Tell the source that everything up to a checkpoint is durable. Cumulative."""


class Telling:
    """What one source was told, and what it has confirmed."""

    def __init__(self, reader: Told, again: float = AGAIN, give_up: float = GIVE_UP) -> None:
        self._reader, self._again, self._give_up = reader, again, give_up
        self._told = self._awaited = self._confirmed = 0
        self._news = asyncio.Event()

    def awaits(self, checkpoint_id: int) -> None:
        """Note that the source does not go on before a checkpoint is committed."""
        self._awaited = checkpoint_id

    def confirmed(self, checkpoint_id: int) -> None:
        """Note what the source says it was told."""
        self._confirmed = max(self._confirmed, checkpoint_id)
        self._news.set()

    async def tell(self, checkpoint_id: int) -> None:
        """Tell the source, once the offset is durable."""
        self._told = checkpoint_id
        await self._send()
        self._news.set()

    async def run(self) -> None:
        """Tell it again while it waits and has not confirmed; until cancelled.

        Raises:
            InternalError: `source.deaf`: it never confirms.
        """
        while True:
            self._news.clear()
            if self._unheard():
                await self._repeat()
            await self._news.wait()

    async def _repeat(self) -> None:
        try:
            async with asyncio.timeout(self._give_up):
                while not await self._heard():
                    await self._send()
        except TimeoutError:
            raise InternalError(
                "source.deaf",
                f"the source waits for the commit of checkpoint {self._awaited}, and does not "
                f"confirm that it was told for {self._give_up:g} s",
                fix="See the plugin's log; a plugin that does not confirm must not say that it does"
                " (ReadOpened.confirms_commits).",
            ) from None

    async def _heard(self) -> bool:
        """Wait for the confirmation, as long as it may take until the source is told again."""
        try:
            async with asyncio.timeout(self._again):
                while self._unheard():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _unheard(self) -> bool:
        return self._reader.confirms and self._confirmed < self._awaited <= self._told

    async def _send(self) -> None:
        if not faults.hit("worker.drop_ack"):  # broken on purpose: the source is not told
            await self._reader.committed(self._told)
