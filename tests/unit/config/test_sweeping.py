"""The next start completes a deletion that a crash interrupted."""

from __future__ import annotations

import pytest

from penstock.config import ConfigService
from penstock.model.connector import Connector
from penstock.model.errors import PenstockError


def test_entries_of_a_deleted_connector_are_deleted_at_the_next_start(room, arm):
    async def test(room):
        made = (await room.connectors.create(Connector("orders", {}))).connector
        await room.topics.record(made.generation, ["t"])
        arm("config.stored=raise")
        with pytest.raises(PenstockError, match=r"fault\.injected"):
            await room.connectors.delete("orders", 0)
        arm("")
        assert len((await room.store.range("")).entries) > 1
        await ConfigService(room.store).start()
        assert (await room.store.range("")).entries == ()

    room(test)
