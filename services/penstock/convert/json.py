"""JSON, with and without schemas: exact to Kafka's JsonConverter."""

from __future__ import annotations

import dataclasses
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

from penstock.convert.connect import NotASchemaError, field_of, schema_of
from penstock.convert.port import BadRow, Decoded, Encoded, Run, bad_row
from penstock.convert.reading import NotReadableError, Reader, reader_of
from penstock.convert.writing import NotWritableError, text_of, writer_of

_MISFITS: Final = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """Keys of Kafka's JsonConverter.

    Attributes:
        schemas: Messages are `{"schema": …, "payload": …}`.
        cache: Schemas that are remembered.
        numeric: Decimals are written as numbers; both forms are read.
        defaults: A null becomes the default of its schema.
        content: The schema of all messages that are read, which then have none in them.
    """

    schemas: bool = True
    cache: int = 1000
    numeric: bool = False
    defaults: bool = True
    content: str = ""


@dataclass(frozen=True, slots=True)
class _Known:
    """A schema that was read."""

    field: pa.Field
    read: Reader


@dataclass(slots=True)
class _Group:
    """Rows of one schema that follow each other; a message without bytes belongs to any."""

    known: _Known | None = None
    rows: list[int] = dataclasses.field(default_factory=list)
    values: list[Any] = dataclasses.field(default_factory=list)

    def takes(self, known: _Known | None) -> bool:
        """Tell whether a row of this schema belongs to it."""
        return known is None or self.known is None or self.known is known

    def add(self, known: _Known | None, row: int, value: Any) -> None:
        """Add a row."""
        self.known = self.known or known
        self.rows.append(row)
        self.values.append(value)

    def run(self, bad: list[BadRow]) -> Run:
        """Return the run; what does not fit its type after all (too many digits) is bad."""
        field = self.known.field if self.known else _NOTHING
        nullable = field.with_nullable(field.nullable or None in self.values)
        fits: Sequence[int] = range(len(self.values))
        if not _fits(self.values, field.type):
            fits = [at for at, value in enumerate(self.values) if _fits([value], field.type)]
        for at in sorted(set(range(len(self.rows))) - set(fits)):
            why = f"the value does not fit into {field.type}"
            bad.append(bad_row(self.rows[at], "converter.value", why, "Widen the schema."))
        column = pa.array([self.values[at] for at in fits], type=field.type)
        return Run(nullable, [self.rows[at] for at in fits], column)


class JsonConverter:
    """JSON messages.

    Raises:
        ConfigError: `converter.schema_content`.
    """

    def __init__(self, options: JsonOptions) -> None:
        self._options = options
        self._cache: OrderedDict[str, _Known] = OrderedDict()
        self._content = self._known(options.content) if options.content else None

    def decode(self, data: pa.Array) -> Decoded:
        """Return the values. Rows of one schema that follow each other are a run."""
        bad: list[BadRow] = []
        if not self._options.schemas:
            return self._without_schemas(data, bad)
        groups: list[_Group] = []
        for index, value in enumerate(data.to_pylist()):
            try:
                known, read = (None, None) if value is None else self._value(value)
            except (ValueError, RecursionError) as error:
                bad.append(_unread(index, error))
                continue
            if not groups or not groups[-1].takes(known):
                groups.append(_Group())
            groups[-1].add(known, index, read)
        runs = tuple(group.run(bad) for group in groups)
        return Decoded(runs, tuple(sorted(bad, key=_index)))

    def _value(self, value: bytes) -> tuple[_Known, Any]:
        document = _parsed(value, exact=True)
        if self._content is not None:
            return self._content, self._content.read(document)
        if not isinstance(document, dict) or set(document) != {"schema", "payload"}:
            raise NotReadableError(
                'with schemas.enable a message is {"schema": …, "payload": …}; plain JSON wants '
                "schemas.enable=false"
            )
        if document["schema"] is None:
            raise NotReadableError("its schema is null")
        known = self._known(text_of(document["schema"]))
        return known, known.read(document["payload"])

    def _known(self, text: str) -> _Known:
        known = self._cache.get(text)
        if known is None:
            schema = json.loads(text)
            field = field_of(schema)
            known = _Known(field, reader_of(schema, defaults=self._options.defaults))
            self._cache[text] = known
            while len(self._cache) > self._options.cache:
                self._cache.popitem(last=False)
        self._cache.move_to_end(text)
        return known

    def _without_schemas(self, data: pa.Array, bad: list[BadRow]) -> Decoded:
        rows: list[int] = []
        values: list[Any] = []
        for index, value in enumerate(data.to_pylist()):
            try:
                read = None if value is None else _parsed(value, exact=False)
            except (ValueError, RecursionError) as error:
                bad.append(_unread(index, error))
                continue
            rows.append(index)
            values.append(read)
        kind, kept = _common(values)
        mixed = sorted(set(range(len(rows))) - set(kept))
        bad += [bad_row(rows[at], "converter.mixed_types", _MIXED, _MIXED_FIX) for at in mixed]
        run = Run(
            pa.field("value", kind),
            [rows[at] for at in kept],
            pa.array([values[at] for at in kept], type=kind),
        )
        return Decoded((run,), tuple(sorted(bad, key=_index)))

    def encode(self, values: pa.Array, field: pa.Field) -> Encoded:
        """Return the messages."""
        options = self._options
        try:
            schema = schema_of(field)
        except NotASchemaError as error:
            message = str(error)
            bad = [
                bad_row(at, "converter.type", message, "Cast the column.")
                for at in range(len(values))
            ]
            return Encoded(pa.nulls(len(values), pa.binary()), tuple(bad))
        write = writer_of(schema, numeric=options.numeric, defaults=options.defaults)
        begin, end = "", ""
        if options.schemas:
            begin, end = f'{{"schema":{text_of(schema)},"payload":', "}"
        made: list[bytes | None] = []
        failed: list[BadRow] = []
        for index, value in enumerate(values.to_pylist()):
            try:
                made.append(None if value is None else f"{begin}{write(value)}{end}".encode())
            except NotWritableError as error:
                made.append(None)
                failed.append(
                    bad_row(
                        index,
                        "converter.not_exact",
                        f"the row cannot be written: {error}",
                        "Cast the column in a transform.",
                    )
                )
        return Encoded(pa.array(made, pa.binary()), tuple(failed))

    def close(self) -> None:
        """Forget the schemas."""
        self._cache.clear()


_MIXED: Final = "the value has another type than those before it"
_MIXED_FIX: Final = (
    "Without schemas all values of a field have one type; write with schemas.enable=true."
)
_NOTHING: Final = pa.field("value", pa.null())


def _parsed(value: bytes, *, exact: bool) -> Any:
    return json.loads(
        value.decode("utf-8"), parse_float=_exactly if exact else None, parse_constant=_no_number
    )


def _exactly(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # its exponent has 19 digits
        raise NotReadableError(f"{text[:80]} is beyond all numbers") from None


def _no_number(text: str) -> Any:
    raise NotReadableError(f"{text} is no number of JSON")


def _unread(index: int, error: Exception) -> BadRow:
    why = str(error) or type(error).__name__
    if isinstance(error, NotASchemaError):
        return bad_row(index, "converter.schema", why, "Correct the schema where it is written.")
    if isinstance(error, NotReadableError):
        return bad_row(index, "converter.value", why, "Correct the message, or name its converter.")
    return bad_row(index, "converter.not_json", f"no JSON: {why}", "Name the converter of it.")


def _index(row: BadRow) -> int:
    return row[0]


def _fits(values: list[Any], kind: pa.DataType) -> bool:
    try:
        pa.array(values, type=kind)
    except _MISFITS:
        return False
    return True


def _common(values: Sequence[Any]) -> tuple[pa.DataType, list[int]]:
    """Return the type that values have in common, and which of them have it."""
    try:
        return pa.array(values).type, list(range(len(values)))
    except _MISFITS:
        pass
    schema = pa.schema([("value", pa.null())])
    kept: list[int] = []
    for at, value in enumerate(values):
        try:
            found = pa.schema([("value", pa.array([value]).type)])
            schema = pa.unify_schemas([schema, found], promote_options="permissive")
            kept.append(at)
        except _MISFITS:
            continue
    return schema.field(0).type, kept
