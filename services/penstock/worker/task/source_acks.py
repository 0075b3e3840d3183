"""Acknowledges checkpoints to a source, and repeats an acknowledgement that the source waits for
until it is confirmed (invariant 2).

A source that hands a snapshot over continues only after the acknowledgement. If a defect anywhere
on the way loses that message, the task would seem to run and never move a row again.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from penstock.model import faults
from penstock.model.errors import InternalError

RESEND_AFTER_S: Final = 2.0
"""Time until an acknowledgement is repeated. Longer delays rows after a lost message."""

TIMEOUT_S: Final = 25.0
"""Time after which a source that never confirms fails its task. An operator sees FAILED within half
a minute, not a task that seems to run.
"""


class AckedSource(Protocol):
    """The part of a source reader that acknowledgements need."""

    @property
    def confirms(self) -> bool:
        """Whether the source confirms acknowledgements."""

    async def committed(self, checkpoint_id: int) -> None:
        """Acknowledge everything up to a checkpoint. Cumulative."""


class SourceAcks:
    """The acknowledgements of one source: sent, expected, confirmed."""

    def __init__(
        self,
        reader: AckedSource,
        resend_after_s: float = RESEND_AFTER_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._reader, self._resend_after_s, self._timeout_s = reader, resend_after_s, timeout_s
        self._sent = self._expected = self._confirmed = 0
        self._changed = asyncio.Event()

    def expect(self, checkpoint_id: int) -> None:
        """Record that the source continues only after the commit of a checkpoint."""
        self._expected = checkpoint_id

    def confirm(self, checkpoint_id: int) -> None:
        """Record a confirmation of the source."""
        self._confirmed = max(self._confirmed, checkpoint_id)
        self._changed.set()

    async def send(self, checkpoint_id: int) -> None:
        """Acknowledge a checkpoint, once its offset is durable."""
        self._sent = checkpoint_id
        await self._send_commit()
        self._changed.set()

    async def run(self) -> None:
        """Repeat the acknowledgement that the source waits for until it is confirmed; until
        cancelled.

        Raises:
            InternalError: `source.deaf`: the source never confirms.
        """
        while True:
            self._changed.clear()
            if self._is_unconfirmed():
                await self._resend_until_confirmed()
            await self._changed.wait()

    async def _resend_until_confirmed(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                while not await self._wait_for_confirmation():
                    await self._send_commit()
        except TimeoutError:
            raise InternalError(
                "source.deaf",
                f"the source waits for the commit of checkpoint {self._expected}, and has not "
                f"confirmed the acknowledgement for {self._timeout_s:g} s",
                fix="See the plugin's log. A plugin that does not confirm commits must not set "
                "`ReadOpened.confirms_commits`.",
            ) from None

    async def _wait_for_confirmation(self) -> bool:
        """Wait for the confirmation until the next repetition is due. Returns whether it came."""
        try:
            async with asyncio.timeout(self._resend_after_s):
                while self._is_unconfirmed():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _is_unconfirmed(self) -> bool:
        return self._reader.confirms and self._confirmed < self._expected <= self._sent

    async def _send_commit(self) -> None:
        if not faults.hit("worker.drop_ack"):  # broken on purpose: no acknowledgement
            await self._reader.committed(self._sent)
