"""The sessions of a task: the stream of the log, and one beside it for everything else."""

from __future__ import annotations

from penstock_databases.postgres_cdc.config import PostgresCdcConfig
from penstock_databases.postgres_cdc.slot import drop_slot
from penstock_databases.postgres_cdc.stream import Feed, Stream
from penstock_databases.postgresql.connection import PostgresqlConnection


class Sessions:
    """Opens sessions when they are needed.

    Attributes:
        stream: The log; None while there is no connection.
    """

    def __init__(self, config: PostgresCdcConfig) -> None:
        self.stream: Stream | None = None
        self._config = config
        self._side: PostgresqlConnection | None = None

    def side(self) -> PostgresqlConnection:
        """Return the session beside the log."""
        if self._side is None:
            self._side = PostgresqlConnection(self._config.target(), self._config.login())
        return self._side

    def follow(self, lsn: int, acknowledged: int) -> Stream:
        """Begin to read the log from a place on."""
        config = self._config
        feed = Feed(config.slot_name, config.publication_name)
        self.stream = Stream(config.target(), config.login(), feed, lsn, acknowledged)
        return self.stream

    def close(self) -> None:
        """End both. They are opened again when they are needed."""
        stream, self.stream = self.stream, None
        side, self._side = self._side, None
        if stream is not None:
            stream.close()
        if side is not None:
            side.close()

    def drop_slot(self) -> None:
        """Drop the slot."""
        try:
            drop_slot(self.side(), self._config.slot_name)
        finally:
            self.close()
