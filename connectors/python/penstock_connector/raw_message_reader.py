"""Reads messages again that could not be read, as they were or as a user corrected them.

`--set` changes a member of a value that is a JSON object; `__raw_key` and `__raw_value` stand for
the whole key and value. Pure but for what reads the neighbours of a message. Codes of errors begin
with the name of the broker: `kafka.not_a_message`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import pyarrow as pa

from penstock_connector._errors import ConnectorError, DataError, RetriableError
from penstock_connector._source import Batch, RawRow
from penstock_connector.messages import Converters, MessageDecoder
from penstock_connector.raw_messages import RawMessage, messages_of
from penstock_values.edits import set_members
from penstock_values.identity import partition_id

NEIGHBOURS: Final = 50
"""Newest messages of a partition, whose columns a row gets that has no schema of its own. More
would make a replay wait for messages that have the same columns as these."""

_RAW_KEY: Final = "__raw_key"
_RAW_VALUE: Final = "__raw_value"
"""Names by which `--set` replaces the key, and the value as a whole."""

_WHOLE_MESSAGE: Final = "Write the whole message, as `penstock dlq export NAME` has it."


ReadNeighbours: TypeAlias = Callable[[Mapping[str, Any]], Sequence[RawMessage]]
"""Returns the newest messages of the partition with a key, at most `NEIGHBOURS`; none where the
topic is gone."""


def read_given_once(
    system: str, open_converters: Callable[[], Converters], rows: Sequence[RawRow]
) -> Iterator[Batch | ConnectorError]:
    """Yield the rows of messages of a system that gives a message once: it has no neighbours to
    look at. See `RawMessageReader.read`.
    """
    reader = RawMessageReader(system, open_converters, lambda _: (), number="", positions=False)
    try:
        yield from reader.read(rows)
    finally:
        reader.close()


class RawMessageReader:
    """Reads messages again, one by one. As in a read of the topic, columns are only added: a row
    also has those of the newest messages of its partition.
    """

    def __init__(
        self,
        system: str,
        open_converters: Callable[[], Converters],
        read_neighbours: ReadNeighbours,
        *,
        number: str,
        positions: bool,
    ) -> None:
        """`number` is the member of a partition's key with its number; with `positions`, rows say
        where they are.
        """
        self._system, self._open, self._read_neighbours = system, open_converters, read_neighbours
        self._number, self._positions = number, positions
        self._decoders: dict[str, MessageDecoder] = {}
        self._learned: set[str] = set()

    def read(self, rows: Sequence[RawRow]) -> Iterator[Batch | ConnectorError]:
        """Yield the batch of each row, or why its bytes are no message that can be read.

        Raises:
            RetriableError: the brokers, or a schema registry, cannot be reached.
        """
        for row in rows:
            try:
                yield self._read(row)
            except RetriableError:
                raise
            except ConnectorError as error:
                yield error

    def close(self) -> None:
        """Close the converters."""
        for decoder in self._decoders.values():
            decoder.close()

    def _read(self, row: RawRow) -> Batch:
        topic = str(row.partition.get("topic") or row.dataset)
        decoder = self._decoder(topic, row.partition)
        message = self._corrected(row, decoder)
        if message.damaged:
            raise _damaged(self._system)
        found, bad = decoder.decode(self._columns([message], row.partition))
        if bad:
            raise bad[0].error
        return Batch(found[0].rows, dataset=topic, key_columns=found[0].key_columns)

    def _decoder(self, topic: str, partition: Mapping[str, Any]) -> MessageDecoder:
        """Return a decoder that knows the columns of a partition."""
        if topic not in self._decoders:
            self._decoders[topic] = MessageDecoder(self._system, topic, self._open())
        decoder, id_ = self._decoders[topic], partition_id(partition)
        if id_ not in self._learned:
            neighbours = self._read_neighbours(partition)
            if neighbours:
                decoder.decode(self._columns(neighbours, partition))
            self._learned.add(id_)
        return decoder

    def _columns(
        self, messages: Sequence[RawMessage], partition: Mapping[str, Any]
    ) -> pa.RecordBatch:
        number = partition.get(self._number)
        is_placed = self._positions and type(number) is int
        return messages_of(messages, number if is_placed else None)

    def _corrected(self, row: RawRow, decoder: MessageDecoder) -> RawMessage:
        """Return the message of a row, as a user corrected it.

        Raises:
            DataError: `<system>.not_a_message`, `<system>.key_unknown`, `<system>.value_not_set`.
        """
        try:
            message = RawMessage.from_bytes(row.raw)
        except ValueError as error:
            raise _not_a_message(self._system, error) from None
        changes = dict(row.changes)
        if message is None:  # a value alone, as earlier versions kept it and users type it
            if _RAW_KEY not in changes:
                raise _key_unknown(self._system)
            message = RawMessage(None, row.raw)
        if _RAW_KEY in changes:
            message = replace(message, key=self._part(changes.pop(_RAW_KEY)))
        if _RAW_VALUE in changes:
            message = replace(message, value=self._part(changes.pop(_RAW_VALUE)), damaged=False)
        return self._with_members(message, changes, decoder) if changes else message

    def _part(self, value: Any) -> bytes | None:
        if value is None:
            return None
        return (value if isinstance(value, str) else json.dumps(value)).encode()

    def _with_members(
        self, message: RawMessage, changes: Mapping[str, Any], decoder: MessageDecoder
    ) -> RawMessage:
        reserved = next((name for name in changes if name.startswith("__")), None)
        if reserved is not None:
            raise _value_not_set(
                self._system,
                f"{reserved!r} cannot be set: it is not in the value of a message",
                f"Set the key with {_RAW_KEY}. {_WHOLE_MESSAGE}",
            )
        types = {field.name: field.type for field in decoder.columns or ()}
        try:
            return replace(message, value=set_members(message.value or b"", changes, types))
        except ValueError as error:
            raise _value_not_set(
                self._system,
                f"{next(iter(changes))!r} cannot be set: the value of the message {error}",
                f"Set the whole value: --set '{_RAW_VALUE}=TEXT'. {_WHOLE_MESSAGE}",
            ) from None


def _damaged(system: str) -> DataError:
    return DataError(
        f"{system}.damaged",
        "the value of the message is not what was sent, and nobody has corrected it",
        fix=f"Set its value: --set '{_RAW_VALUE}=TEXT'. {_WHOLE_MESSAGE}",
    )


def _not_a_message(system: str, why: Exception) -> DataError:
    return DataError(f"{system}.not_a_message", f"the row is no message: {why}", fix=_WHOLE_MESSAGE)


def _key_unknown(system: str) -> DataError:
    return DataError(
        f"{system}.key_unknown",
        "the row is the value of a message, and its key is not known",
        fix=f"Say which key it has: --set {_RAW_KEY}=KEY, or --set {_RAW_KEY}=null for none. "
        f"{_WHOLE_MESSAGE}",
    )


def _value_not_set(system: str, message: str, fix: str) -> DataError:
    return DataError(f"{system}.value_not_set", message, fix=fix)
