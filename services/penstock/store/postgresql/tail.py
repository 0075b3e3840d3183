"""Follows the writes of all processes, for the watches of this one.

LISTEN tells that there is something new; what it is stands in the table `change`, read in the
order of revisions. A notification that is lost costs one poll (invariant 7).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from penstock.model.errors import PenstockError
from penstock.store.feed import KEPT, Feed
from penstock.store.postgresql.errors import translate
from penstock.store.postgresql.settings import PostgresqlSettings
from penstock.store.postgresql.writer import channel

log = logging.getLogger(__name__)

POLL: Final = 1.0
"""Seconds between two looks when no notification comes. Longer delays what a lost one told of;
shorter costs the server a query a second and process."""

_FLOOR: Final = "SELECT coalesce(min(revision) - 1, (SELECT revision FROM state)) FROM change"
_NEWS: Final = (
    "SELECT s.revision AS now, c.revision, c.keys FROM state s LEFT JOIN LATERAL"
    " (SELECT revision, keys FROM change WHERE revision > $1 ORDER BY revision LIMIT $2) c ON true"
    " ORDER BY c.revision"
)


class Tail:
    """A task that feeds a `Feed`. Owned by the store; ends with `stop`."""

    def __init__(self, settings: PostgresqlSettings) -> None:
        """Start the task; the feed knows nothing before the first look."""
        self.feed = Feed(0)
        self._settings = settings
        self._news = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._task = asyncio.get_running_loop().create_task(self._run())

    def nudge(self) -> None:
        """Look now."""
        self._news.set()

    async def looked(self) -> None:
        """Return after a look that began after this call."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self.nudge()
        await future

    async def stop(self) -> None:
        """End the watches and the task."""
        self.feed.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._answer(self._waiting)

    async def _run(self) -> None:
        while True:
            connection = None
            try:
                connection = await self._settings.connect()
                await self._follow(connection)
            except PenstockError as error:
                log.warning("cannot follow the writes of others: %s", error)
            except Exception as error:  # noqa: BLE001 - asyncpg's many; the next look tells
                log.warning("cannot follow the writes of others: %s", translate(error, "watch"))
            finally:
                if connection is not None:
                    connection.terminate()
            await asyncio.sleep(POLL)

    async def _follow(self, connection: Any) -> None:
        name = channel(self._settings.schema)
        await connection.add_listener(name, lambda *_: self.nudge())
        if not self.feed.revision:
            self.feed.lose(await connection.fetchval(_FLOOR))
        while True:
            self._news.clear()
            waiting, self._waiting = self._waiting, []
            try:
                while await self._look(connection):
                    pass
            except BaseException:
                self._waiting += waiting
                raise
            self._answer(waiting)
            try:
                async with asyncio.timeout(POLL):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _look(self, connection: Any) -> bool:
        """Publish what is new; True when there is more."""
        rows = await connection.fetch(_NEWS, self.feed.revision, KEPT)
        now = rows[0]["now"]
        news = [row for row in rows if row["revision"] is not None]
        if now < self.feed.revision or (news and news[0]["revision"] > self.feed.revision + 1):
            self.feed.lose(now)  # restored from a backup, or changes were pruned meanwhile
            return False
        for row in news:
            if row["keys"] is None:
                self.feed.lose(row["revision"])  # too many keys to name
            else:
                self.feed.publish(row["revision"], [key.decode() for key in row["keys"]])
        return len(news) == KEPT

    def _answer(self, waiting: list[asyncio.Future[None]]) -> None:
        for future in waiting:
            if not future.done():
                future.set_result(None)
