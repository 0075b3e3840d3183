"""Rows as requests: addresses, headers, bodies, cut by rows and bytes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import DataError, Op, Staging
from penstock_connector.converter_keys import open_converter
from penstock_connector.messages import Converters, MessageEncoder
from penstock_connector.staging import MemoryStaging
from penstock_converters import Converter
from penstock_net.http_sink.config import HttpSinkConfig
from penstock_net.http_sink.jsontext import json_text
from penstock_net.web.converting import PATH
from penstock_net.web.headers import is_header

_HEADERS = "__headers"
_OP = "__op"

_DELETE = DataError(
    "http.delete",
    "the row deletes one, and its request would be that of a new row",
    fix="Set `reserved.columns=true` so that `__op` is sent, or name `${__op}` in `url` or `body`; "
    "a connector of its own with a Filter and `method=DELETE` sends deletes as such.",
)

_NOT_CONVERTED = frozenset({"__key", "__before", _HEADERS})
"""Reserved columns that a body does not have."""

_OF_KEYS = ".delete_without_key"
"""End of the code of an error that only messages of a broker have: a request needs no key."""

Row = dict[str, Any]
Place = tuple[Staging, int]
"""A row: its staging, and its number there."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a staging. Where failed rows are tolerated, `numbers` are those of its rows there."""

    staging: MemoryStaging
    rows: pa.RecordBatch
    numbers: pa.UInt64Array | None = None

    def take(self, rows: Sequence[int]) -> Part:
        """Return some of the rows."""
        chosen = pa.array(rows, pa.int32())
        numbers = None if self.numbers is None else self.numbers.take(chosen)
        return Part(self.staging, self.rows.take(chosen), numbers)

    def places(self) -> list[Place | None]:
        """Return where each row is staged."""
        if self.numbers is None:
            return [None] * self.rows.num_rows
        return [(self.staging, number) for number in self.numbers.to_pylist()]


@dataclass(slots=True)
class Outgoing:
    """A request that is to be sent.

    Attributes:
        url: Where.
        headers: Of its row, where it has just one.
        key: What names its row for ever; empty: it is named by its number.
        texts: Its rows, in UTF-8 or as a converter has written them.
        places: Where each is staged; None where failed rows are not tolerated.
        size: Bytes of the rows.
    """

    url: str
    headers: Mapping[str, str]
    key: str
    texts: list[bytes] = field(default_factory=list)
    places: list[Place | None] = field(default_factory=list)
    size: int = 0

    def halves(self) -> tuple[Outgoing, Outgoing]:
        """Return two requests with a half of the rows each."""
        middle = len(self.texts) // 2
        first = replace(self, texts=self.texts[:middle], places=self.places[:middle])
        return first, replace(self, texts=self.texts[middle:], places=self.places[middle:])


class Bodies:
    """Makes requests of rows, in their order."""

    def __init__(self, config: HttpSinkConfig) -> None:
        self._config = config
        self._address, self._template = config.address(), config.row_body()
        self._key = config.row_key() if config.names_rows else None
        self._begin, self._between, self._end = _frame(config)
        wanted = config.row_headers
        self._taken = None if "*" in wanted else {name.lower() for name in wanted}
        self._converter = _open_converter(config)

    @property
    def are_addressed(self) -> bool:
        """Whether a row has an address of its own."""
        return bool(self._address.names)

    @property
    def columns(self) -> set[str]:
        """The columns that templates and the order need."""
        templates = [self._address, self._template, *([self._key] if self._key else [])]
        return {n for t in templates for n in t.names} | set(self._config.order_columns)

    def refused(self, rows: pa.RecordBatch, dataset: str) -> list[tuple[int, DataError]]:
        """Return the rows of which no request can be made."""
        found = dict.fromkeys(self._unsaid_deletes(rows), _DELETE)
        if self._address.names or self._key or self._config.row_headers:
            for index, row in enumerate(rows.to_pylist()):
                try:
                    self._opened(row, dataset)
                except DataError as error:
                    found.setdefault(index, error)
        for index, problem in self._converted(rows, dataset)[1]:
            found.setdefault(index, problem)
        return sorted(found.items())

    def close(self) -> None:
        """Close the converter."""
        if self._converter is not None:
            self._converter.close()

    def _converted(
        self, rows: pa.RecordBatch, dataset: str
    ) -> tuple[Sequence[bytes | None], list[tuple[int, DataError]]]:
        """Return the message of each row, and the rows that have none; nothing without a converter.
        A delete has the message of a null: no body.
        """
        if self._converter is None:
            return [None] * rows.num_rows, []
        by = Converters(self._converter, self._converter)
        encoder = MessageEncoder("http", dataset, rows.schema, (), by)
        kept = [name for name in rows.schema.names if name not in _NOT_CONVERTED]
        messages, bad = encoder.encode(rows.select(kept))
        found = [(one.index, one.error) for one in bad if not one.error.code.endswith(_OF_KEYS)]
        errors = [(index, error) for index, error in found if isinstance(error, DataError)]
        return messages.column("value").to_pylist(), errors

    def _unsaid_deletes(self, rows: pa.RecordBatch) -> list[int]:
        """Return the rows that delete something, where their request would not say so."""
        place = rows.schema.get_field_index(_OP)
        if place < 0 or self._config.reserved_columns or _OP in self.columns:
            return []
        unsaid = [Op.TRUNCATE] if self._config.method == "DELETE" else [Op.DELETE, Op.TRUNCATE]
        ops = rows.column(place)
        found = pc.is_in(ops, pa.array([int(op) for op in unsaid], ops.type))
        numbers: list[int] = pc.indices_nonzero(found).to_pylist()
        return numbers

    def of(self, parts: Iterable[Part]) -> Iterator[Outgoing]:
        """Yield the requests of rows; rows with another address begin another one."""
        config = self._config
        current: Outgoing | None = None
        for part in parts:
            dataset = part.staging.dataset
            messages, _ = self._converted(part.rows, dataset)
            of_part = zip(part.rows.to_pylist(), part.places(), messages, strict=True)
            for row, place, message in of_part:
                opened = self._opened(row, dataset)
                if self._converter is None:
                    message = self._text(row, dataset).encode()  # noqa: PLW2901
                text = message or b""
                size = len(text)
                if current is not None and (
                    opened.url != current.url
                    or len(current.texts) >= config.batch_rows
                    or current.size + size > config.batch_bytes
                ):
                    yield current
                    current = None
                current = current or opened
                current.texts.append(text)
                current.places.append(place)
                current.size += size + len(self._between)
        if current is not None:
            yield current

    def body(self, outgoing: Outgoing) -> bytes:
        """Return the body of a request."""
        begin, between, end = self._begin.encode(), self._between.encode(), self._end.encode()
        return begin + between.join(outgoing.texts) + end

    def _opened(self, row: Row, dataset: str) -> Outgoing:
        key = self._key.filled(row, dataset) if self._key else ""
        headers = self._headers(row) if self._config.row_headers else {}
        return Outgoing(self._address.filled(row, dataset), headers, key)

    def _headers(self, row: Row) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in row.get(_HEADERS) or ():
            if self._taken is not None and name.lower() not in self._taken:
                continue
            text = (value or b"").decode("latin-1") if isinstance(value, bytes) else str(value)
            if not is_header(name, text):
                raise DataError(
                    "http.bad_header",
                    f"header {name[:80]!r} of the row cannot be sent",
                    fix="Name the headers that are meant in `row.headers`.",
                )
            found[name] = text
        return found

    def _text(self, row: Row, dataset: str) -> str:
        if not self._config.reserved_columns:
            row = {name: value for name, value in row.items() if not name.startswith("__")}
        if self._config.format == "template":
            return self._template.filled(row, dataset)
        return json_text(row)


def _open_converter(config: HttpSinkConfig) -> Converter | None:
    if not config.value_converter:
        return None
    return open_converter(PATH, config.value_converter, config.value_converter_keys, is_key=False)


def _frame(config: HttpSinkConfig) -> tuple[str, str, str]:
    """Return what begins a body, stands between rows, and ends it."""
    match config.format:
        case "json" if config.value_converter:
            return "", "", ""
        case "template":
            return config.body_begin, config.body_separator, config.body_end
        case "jsonl":
            return "", "\n", "\n"
    return ("[", ",", "]") if config.batch_rows > 1 else ("", "", "")
