"""Values of headers as texts, as Kafka Connect's `Values` reads and writes them. Pure.

A row has the text of a header's value. `parse_literal` gives a text the type that Kafka's
SimpleHeaderConverter and InsertHeader give it; `format_value` writes a value as that converter
does. `read_text` reads the text of a row whose type is known (`headers.types`).

| text | type |
|---|---|
| `true`, `false` | boolean |
| a whole number, also `1e3` and `007` | the smallest of int8, int16, int32 and int64 that has it |
| any other number | float; double, where float is infinite; Decimal where that is, too |
| `2020-01-01`, `00:00:00.000Z`, `2020-01-01T00:00:00.000Z` | Date, Time, Timestamp |
| `[1, 2.5]`, `{"a": 1}` | array, map; of the widest type of their numbers |
| `null` | null |
| anything else | text |

Dates and times must be valid; Kafka reads month 13 as January.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kind

from penstock_converters.json.values import format_float

MAX_ZEROS: Final = 1000
"""Zeros that a number such as `1e400` may have when it is written; Kafka writes any count."""

TIME: Final = pa.time32("ms")
TIMESTAMP: Final = pa.timestamp("ms", "UTC")

_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_TOKEN: Final = re.compile(r'[:,{}\[\]"]|(?:\\.|\\\Z|[^\\:,{}\[\]"])+', re.DOTALL)
_WHOLE: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_WIDTH: Final = {type_: n for n, type_ in enumerate((*_WHOLE, pa.float32(), pa.float64()))}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_FORMATS: Final = {
    10: ("%Y-%m-%d", pa.date32()),
    13: ("%H:%M:%S.%fZ", TIME),
    24: ("%Y-%m-%dT%H:%M:%S.%fZ", TIMESTAMP),
}  # fmt: skip
_SHAPES: Final = {
    10: re.compile(r"\d{4}-\d\d-\d\d", re.ASCII),
    13: re.compile(r"\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII),
    24: re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII),
}


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that a text is. `type` is None for one that Arrow has no type for: a list of values
    of several types. The value of an array is a list, that of a map a tuple of pairs, of literals.
    """

    type: pa.DataType | None
    value: Any

    @property
    def text(self) -> str:
        """The value as Kafka's `Values` writes it."""
        return _format_literal(self, embedded=False)

    @property
    def row_text(self) -> str:
        """The value as a row has it."""
        is_nested = isinstance(self.value, list | tuple)
        return self.text if is_nested else row_text(self.value, self.type or pa.null())

    @property
    def field(self) -> pa.Field | None:
        """The type as a field; None where Arrow has none."""
        if self.type is None:
            return None
        type_, metadata = _field_type(self.type), None
        if kind.is_decimal(self.type):  # a literal has no precision
            metadata = {"connect.parameters": json.dumps({"scale": str(self.type.scale)})}
        return pa.field("header", type_, nullable=False, metadata=metadata)

    @property
    def plain(self) -> Any:
        """The value as Arrow takes it."""
        return _plain(self)


def _field_type(type_: pa.DataType) -> pa.DataType:
    """Return the type with items that are not optional, as Kafka has it, and texts in place of
    items that are all null.
    """
    if kind.is_list(type_):
        return pa.list_(_item_field("item", type_.value_type))
    if kind.is_map(type_):
        key = _item_field("key", type_.key_type)
        return pa.map_(key, _item_field("value", type_.item_type))
    return pa.string() if kind.is_null(type_) else type_


def _item_field(name: str, type_: pa.DataType) -> pa.Field:
    return pa.field(name, _field_type(type_), nullable=kind.is_null(type_))


_NULL: Final = Literal(pa.null(), None)


class _NoCollectionError(ValueError):
    """A text that begins like an array or a map is none."""


def parse_literal(text: str) -> Literal:
    """Return the value that a text is; the type of null is null."""
    return _Parser(text).top() if text else Literal(pa.string(), text)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = _TOKEN.findall(text)
        self._at = 0

    def top(self) -> Literal:
        for word, value in _WORDS.items():
            if self._text.strip(_BLANK) == word:
                return value
        begin = self._at
        try:
            if self._consume("["):
                return self._array()
            if self._consume("{"):
                return self._map()
            token = self._next_word()
        except _NoCollectionError:
            self._at = begin
            token = self._next()
        if not token.strip(_BLANK):
            return Literal(pa.string(), token)
        return self._number(token.strip(_BLANK)) or Literal(pa.string(), self._text)

    def _value(self) -> Literal:
        """Return a value in an array or a map."""
        if self._consume('"'):
            return self._quoted()
        for word, value in _WORDS.items():
            if self._consume(word):
                return value
        if self._consume("["):
            return self._array()
        if self._consume("{"):
            return self._map()
        token = self._next_word()
        if not token.strip(_BLANK):
            return Literal(pa.string(), token)
        found = self._number(token.strip(_BLANK))
        if found is None:
            raise _NoCollectionError
        return found

    def _consume(self, expected: str) -> bool:
        """Step behind a token, and white space before it, if it is the next one."""
        at = self._at
        while at < len(self._tokens) - 1 and not self._tokens[at].strip(_BLANK):
            at += 1
        if at < len(self._tokens) and self._tokens[at].strip(_BLANK) == expected:
            self._at = at + 1
            return True
        return False

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise _NoCollectionError
        self._at += 1
        return self._tokens[self._at - 1]

    def _next_word(self) -> str:
        """Return the next token that is not white space, if there is one."""
        token = self._next()
        while not token.strip(_BLANK) and self._at < len(self._tokens):
            token = self._next()
        return token

    def _number(self, token: str) -> Literal | None:
        """Return a time or a number. An unescaped colon divides a time into five tokens."""
        if token[0].isdecimal():
            rest = self._tokens[self._at : self._at + 4]
            if len(rest) == 4 and (found := _parse_time(token + "".join(rest))) is not None:
                self._at += 4
                return found
            if (found := _parse_time(token)) is not None:
                return found
        return _parse_number(token)

    def _quoted(self) -> Literal:
        parts = []
        while self._at < len(self._tokens) and not self._consume('"'):
            parts.append(self._next())
        text = "".join(parts)
        return _parse_time(text) or Literal(pa.string(), text)

    def _array(self) -> Literal:
        items: list[Literal] = []
        while True:
            if self._consume("]"):
                return _array_of(items)
            if self._consume(","):
                raise _NoCollectionError
            items.append(self._value())
            at = self._at
            if self._consume("]"):
                self._at = at
            elif not self._consume(","):
                raise _NoCollectionError

    def _map(self) -> Literal:
        pairs: list[tuple[Literal, Literal]] = []
        while True:
            if self._consume("}"):
                return _map_of(pairs)
            if self._consume(","):
                raise _NoCollectionError
            key = self._value()
            if key is _NULL or not self._consume(":"):
                raise _NoCollectionError
            pairs.append((key, self._value()))
            self._consume(",")


_BLANK: Final = "".join(map(chr, range(33)))
"""What Java's `String.trim` removes."""

_WORDS: Final = {
    "null": _NULL,
    "true": Literal(pa.bool_(), value=True),
    "false": Literal(pa.bool_(), value=False),
}


def _parse_time(text: str) -> Literal | None:
    text = text.replace("\\:", ":")
    shape = _SHAPES.get(len(text))
    if shape is None or not shape.fullmatch(text):
        return None
    form, type_ = _FORMATS[len(text)]
    try:
        found = datetime.strptime(text, form).replace(tzinfo=UTC)
    except ValueError:
        return None
    if kind.is_date(type_):
        return Literal(type_, found.date())
    return Literal(type_, found.time() if kind.is_time(type_) else found)


def _parse_number(token: str) -> Literal | None:
    if token[0] == "." or not _NUMBER.fullmatch(token):
        return None
    number = Decimal(token)
    scale = -int(number.as_tuple().exponent)
    if abs(number.adjusted()) < 40 and number == number.to_integral_value():
        whole = int(number)
        for type_ in _WHOLE:
            if -(1 << type_.bit_width - 1) <= whole < 1 << type_.bit_width - 1:
                return Literal(type_, whole)
    with np.errstate(over="ignore"):
        single, double = np.float32(token), float(token)
    if scale and np.isfinite(single):
        return Literal(pa.float32(), float(single))
    if scale and np.isfinite(double):
        return Literal(pa.float64(), double)
    digits = max(len(number.as_tuple().digits), scale, 1)
    fits = digits <= 76 and -76 <= scale <= 76
    return Literal(pa.decimal256(digits, scale) if fits else None, number)


def _common_type(items: Sequence[Literal]) -> pa.DataType | None:
    """Return the type that all values have; that of null if all are null."""
    common: pa.DataType | None = pa.null()
    for item in items:
        if item.type is None or (common := _merge(common, item.type)) is None:
            return None
    return common


def _merge(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type of values of two types. Of two arrays, one may have no values."""
    if kind.is_null(other) or one.equals(other):
        return one
    if kind.is_null(one):
        return other
    if one in _WIDTH and other in _WIDTH:
        return max(one, other, key=_WIDTH.__getitem__)
    if kind.is_list(one) and kind.is_list(other):
        inner = _merge(one.value_type, other.value_type)
        unchanged = inner is not None and (
            inner.equals(one.value_type) or kind.is_null(one.value_type)
        )
        fits = inner is not None and (
            inner.equals(other.value_type) or kind.is_null(other.value_type)
        )
        return pa.list_(inner) if unchanged and fits else None
    return None


def _align(items: Sequence[Literal], type_: pa.DataType | None) -> list[Literal]:
    if type_ is None or not kind.is_floating(type_):
        return list(items)
    return [one if one is _NULL else Literal(type_, float(one.value)) for one in items]


def _array_of(items: Sequence[Literal]) -> Literal:
    type_ = _common_type(items)
    return Literal(None if type_ is None else pa.list_(type_), _align(items, type_))


def _map_of(pairs: Sequence[tuple[Literal, Literal]]) -> Literal:
    unique = {key.plain if key.type is None else (key.type, _hashable(key)): (key, value)
              for key, value in pairs}  # fmt: skip
    keys, values = [k for k, _ in unique.values()], [v for _, v in unique.values()]
    of_keys, of_values = _common_type(keys), _common_type(values)
    aligned = tuple(zip(_align(keys, of_keys), _align(values, of_values), strict=True))
    known = of_keys is not None and of_values is not None
    return Literal(pa.map_(of_keys, of_values) if known and keys else None, aligned)


def _hashable(literal: Literal) -> Any:
    return literal.text if isinstance(literal.value, list | tuple) else literal.value


def _plain(literal: Literal) -> Any:
    match literal.value:
        case list():
            return [_plain(one) for one in literal.value]
        case tuple():
            return [(_plain(key), _plain(one)) for key, one in literal.value]
    return literal.value


def _format_literal(literal: Literal, *, embedded: bool) -> str:
    match literal.value:
        case list() as items:
            return f"[{','.join(_format_literal(one, embedded=True) for one in items)}]"
        case tuple() as pairs:
            parts = (":".join(_format_literal(x, embedded=True) for x in pair) for pair in pairs)
            return f"{{{','.join(parts)}}}"
    return format_value(literal.value, literal.type or pa.null(), embedded=embedded)


def format_value(value: Any, type_: pa.DataType, *, embedded: bool = False) -> str:
    """Return a value as Kafka's SimpleHeaderConverter writes it; `embedded` in another one."""
    match value:
        case bytes():
            text = base64.b64encode(value).decode()
            return f'"{text}"' if embedded else text
        case str():
            return _quote(value) if embedded else value
        case datetime() | date() | time():
            return _format_time(value)
        case list() | dict():
            return _format_nested(value, type_)
    return _format_plain(value, type_)


def _format_plain(value: Any, type_: pa.DataType) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            single = kind.is_float32(type_) or kind.is_float16(type_)
            return format_float(value, single=single).strip('"')
        case Decimal():
            zeros = int(value.as_tuple().exponent)
            return f"{value:f}" if 0 < zeros < MAX_ZEROS else str(value)
    return str(value)


def row_text(value: Any, type_: pa.DataType) -> str:
    """Return a value as a row has it: as `format_value`, but whole times, of which that may lose
    the day.
    """
    match value:
        case datetime():
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case date():
            return value.isoformat()
    return format_value(value, type_)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _format_time(value: datetime | date | time) -> str:
    """Return a time. Kafka looks at its milliseconds, and not at its type: a timestamp at midnight
    is a date, and what is before 1970-01-02, a time.
    """
    match value:
        case datetime():
            at = value
        case date():
            at = datetime(value.year, value.month, value.day, tzinfo=UTC)
        case _:
            at = datetime.combine(_EPOCH.date(), value, UTC)
    since = at - _EPOCH
    clock = f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}Z"
    if since < _DAY:
        return clock
    day = f"{at.year:04d}-{at:%m-%d}"
    return day if since % _DAY < timedelta(milliseconds=1) else f"{day}T{clock}"


def _format_nested(value: Any, type_: pa.DataType) -> str:
    if kind.is_map(type_):
        pairs = (
            f"{format_value(k, type_.key_type, embedded=True)}:"
            f"{format_value(v, type_.item_type, embedded=True)}"
            for k, v in value
        )
        return f"{{{','.join(pairs)}}}"
    if kind.is_struct(type_):
        fields = (
            f"{_quote(one.name)}:{format_value(value[one.name], one.type, embedded=True)}"
            for one in type_
        )
        return f"{{{','.join(fields)}}}"
    items = (format_value(one, type_.value_type, embedded=True) for one in value)
    return f"[{','.join(items)}]"


def read_text(text: bytes, type_: pa.DataType) -> Any:
    """Return the value of a row's text whose type is known.

    Raises:
        ValueError: it is not the text of such a value.
    """
    string = text.decode()
    if kind.is_nested(type_):
        try:
            return _read_json(json.loads(string, strict=False, parse_float=Decimal), type_)
        except (ValueError, AttributeError):
            found = parse_literal(string)  # `{1:2}`, and times without quotes, are no JSON
            if found.field is None or not found.field.type.equals(_field_type(type_)):
                raise ValueError(string) from None
            return found.plain
    if kind.is_boolean(type_):
        if string not in {"true", "false"}:
            raise ValueError(string)
        return string == "true"
    return _read_scalar(string, type_)


def _read_scalar(text: str, type_: pa.DataType) -> Any:
    if kind.is_integer(type_):
        return int(text)
    if kind.is_floating(type_):
        return float(text)
    if kind.is_decimal(type_):
        return pa.scalar(Decimal(text), type_).as_py()
    if kind.is_binary(type_):
        return base64.b64decode(text, validate=True)
    if kind.is_date(type_):
        return date.fromisoformat(text)
    if kind.is_time(type_):
        return time.fromisoformat(text).replace(tzinfo=None)
    if kind.is_timestamp(type_):
        at = datetime.fromisoformat(text)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return at.astimezone(UTC).replace(microsecond=at.microsecond // 1000 * 1000)
    return text


def _read_json(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if kind.is_struct(type_):
        return {one.name: _read_json(value.get(one.name), one.type) for one in type_}
    if kind.is_map(type_):
        return [
            (_read_json(k, type_.key_type), _read_json(v, type_.item_type))
            for k, v in value.items()
        ]
    if kind.is_list(type_):
        return [_read_json(one, type_.value_type) for one in value]
    return value if isinstance(value, bool) else _read_scalar(str(value), type_)
