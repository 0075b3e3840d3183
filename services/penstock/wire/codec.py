"""The codec between dataclasses of the model and messages: field by field, by name.

How a field is converted follows from its type in the dataclass and its descriptor in the message:

| dataclass | message | |
|---|---|---|
| scalar, text, bytes | the same | |
| `IntEnum` | enum | the same numbers; a number of a newer version reads as 0 |
| dataclass | message | by one of the codec's `parts` |
| `X | None` | `optional`, or a message | None is an absent field |
| `tuple[X, ...]`, `Sequence[X]` | `repeated` | |
| `Mapping[str, X]` | `map` of scalars | |
| `float` | `Duration`, `Timestamp` | seconds, since the epoch; 0 is an absent field |
| `datetime` | `Timestamp` | UTC |

A codec names everything else: fields with another name (`names`), fields with a conversion of their
own (`converters`), fields that it leaves alone (`only_in_value`, `only_in_message`). The first use
of a codec fails if a field of either side is neither mapped nor named.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from functools import cached_property
from typing import (
    Any,
    Final,
    Generic,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

V = TypeVar("V")
M = TypeVar("M", bound=Message)
_E = TypeVar("_E", bound=IntEnum)
_Convert: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Converter:
    """The conversion of one field; a direction without a function passes the value on as it is.
    What `to_proto` returns is given to the message's constructor: None leaves the field unset.
    """

    to_proto: _Convert | None = None
    from_proto: _Convert | None = None


class MessageCodec(Protocol):
    """Converts between the values of a type and a message: a `Codec`, or one written by hand."""

    @property
    def value_type(self) -> Any:
        """The type of the values."""

    @property
    def message_type(self) -> type[Message]:
        """The type of the message."""

    @property
    def to_proto(self) -> _Convert:
        """Return the message for a value."""

    @property
    def from_proto(self) -> _Convert:
        """Return the value of a message."""


@dataclass(frozen=True, slots=True)
class CustomCodec:
    """A codec that is written by hand, as a part of others."""

    value_type: Any
    message_type: type[Message]
    to_proto: _Convert
    from_proto: _Convert


class Codec(Generic[V, M]):
    """Converts between a dataclass and a message."""

    def __init__(
        self,
        value_type: type[V],
        message_type: type[M],
        *,
        parts: Sequence[MessageCodec] = (),
        names: Mapping[str, str] | None = None,
        converters: Mapping[str, Converter] | None = None,
        only_in_value: Sequence[str] = (),
        only_in_message: Sequence[str] = (),
    ) -> None:
        """`parts` convert nested messages. `names`: field of the value → field of the message.
        `converters`: by field of the value. The caller of `from_proto` gives the fields that are
        `only_in_value`, unless they have defaults.
        """
        self.value_type, self.message_type = value_type, message_type
        self._parts = {
            (one.value_type, one.message_type.DESCRIPTOR.full_name): one for one in parts
        }
        self._names, self._converters = dict(names or {}), dict(converters or {})
        self._only_in_value, self._only_in_message = only_in_value, only_in_message

    @cached_property
    def to_proto(self) -> Callable[[V], M]:
        """What returns the message for a value."""
        found = []
        for one in self._fields:
            call = one.call("to_proto", f"value.{one.name}")
            if one.optional and one.converter.to_proto:
                call += f" if value.{one.name} is not None else None"
            found.append(f"{one.field}={call}")
        return self._compile(f"lambda value: message_type({', '.join(found)})")

    @cached_property
    def from_proto(self) -> Callable[..., V]:
        """What returns the value of a message and of the fields that are `only_in_value`."""
        found = []
        for one in self._fields:
            call = one.call("from_proto", f"message.{one.field}")
            if one.optional:
                call += f" if message.HasField({one.field!r}) else None"
            found.append(
                f"{one.name}={call}" if self._only_in_value else call
            )  # faster by position
        others = ", **others" if self._only_in_value else ""
        return self._compile(f"lambda message{others}: value_type({', '.join(found)}{others})")

    def _compile(self, source: str) -> Callable[..., Any]:
        """Compile an expression of the converters, as `dataclasses` compiles `__init__`. It takes
        as long as a conversion that is written by hand; a loop over the fields takes twice as long,
        and the leader reads the statuses of thousands of tasks every few seconds.
        """
        names: dict[str, Any] = {"value_type": self.value_type, "message_type": self.message_type}
        for one in self._fields:
            names |= {f"to_proto_{one.name}": one.converter.to_proto}
            names |= {f"from_proto_{one.name}": one.converter.from_proto}
        compiled: Callable[..., Any] = eval(source, names)  # noqa: S307 - names of fields only
        return compiled

    @cached_property
    def _fields(self) -> Sequence[_Field]:
        """The mapped fields.

        Raises:
            TypeError: a field is neither mapped nor named.
        """
        hints = get_type_hints(self.value_type)
        mapped = {
            name: self._names.get(name, name)
            for name in _field_names(self.value_type)
            if name not in self._only_in_value
        }
        self._check_names(mapped.values())
        return [
            _Field(
                name,
                field,
                self._converter(name, hints[name], field),
                _unwrap_optional(hints[name]) is not hints[name],
            )
            for name, field in mapped.items()
        ]

    def _check_names(self, mapped: Iterable[str]) -> None:
        message = self.message_type.DESCRIPTOR
        wrong = {*mapped, *self._only_in_message} ^ set(message.fields_by_name)
        ours = {*self._names, *self._converters, *self._only_in_value}
        wrong |= ours - set(_field_names(self.value_type))
        if wrong:
            raise TypeError(
                f"{self.value_type.__name__} and {message.full_name}: fields of one side only: "
                f"{', '.join(sorted(wrong))}. Map them, or name them in the codec."
            )

    def _converter(self, name: str, hint: Any, field: str) -> Converter:
        descriptor: Any = self.message_type.DESCRIPTOR.fields_by_name[field]
        found = self._converters.get(name) or self._field_converter(
            _unwrap_optional(hint), descriptor
        )
        if found is None:
            raise TypeError(
                f"{self.value_type.__name__}.{name} is a {hint}, which has no conversion to "
                f"{descriptor.full_name}. Give the codec a part or a converter for it."
            )
        return found

    def _field_converter(self, hint: Any, descriptor: FieldDescriptor) -> Converter | None:
        origin, message = get_origin(hint), descriptor.message_type
        if message is not None and message.GetOptions().map_entry:
            scalar = message.fields_by_name["value"].message_type is None
            return Converter(None, dict) if origin is Mapping and scalar else None
        if origin not in {tuple, Sequence}:
            return self._single_converter(hint, descriptor)
        item = self._single_converter(get_args(hint)[0], descriptor)
        if item is None:
            return None
        return Converter(item.to_proto and _map(item.to_proto), _map(item.from_proto))

    def _single_converter(self, hint: Any, descriptor: FieldDescriptor) -> Converter | None:
        if descriptor.message_type is not None:
            key = get_origin(hint) or hint, descriptor.message_type.full_name
            part = self._parts.get(key)
            return (
                _WELL_KNOWN.get(key) if part is None else Converter(part.to_proto, part.from_proto)
            )
        if descriptor.enum_type is not None:
            is_enum = isinstance(hint, type) and issubclass(hint, IntEnum)
            return Converter(None, enum_reader(hint)) if is_enum else None
        return Converter() if hint is _SCALARS.get(descriptor.type, int) else None


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    field: str
    converter: Converter
    optional: bool

    def call(self, direction: str, argument: str) -> str:
        """Return the expression that converts `argument`."""
        convert = getattr(self.converter, direction)
        return argument if convert is None else f"{direction}_{self.name}({argument})"


def _field_names(value_type: Any) -> list[str]:
    return [field.name for field in fields(value_type)]


def _map(convert: _Convert | None) -> _Convert:
    return tuple if convert is None else lambda values: tuple(map(convert, values))


def _unwrap_optional(hint: Any) -> Any:
    """Return X for `X | None`, else the type itself."""
    if get_origin(hint) in {Union, types.UnionType}:
        rest = [one for one in get_args(hint) if one is not type(None)]
        return rest[0] if len(rest) == 1 else hint
    return hint


def enum_reader(kind: type[_E]) -> Callable[[int], _E]:
    """Return what reads the number of an enum. A number of a newer version reads as 0."""
    known, unset = {one.value: one for one in kind}, kind(0)
    return lambda number: known.get(number, unset)


def _duration(seconds: float) -> Duration | None:
    if not seconds:
        return None
    message = Duration()
    message.FromTimedelta(timedelta(seconds=seconds))
    return message


def _timestamp(seconds: float) -> Timestamp | None:
    if not seconds:
        return None
    # microseconds: the precision of the clock
    whole, part = divmod(round(seconds * 1e6), 1_000_000)
    return Timestamp(seconds=whole, nanos=part * 1000)


_SCALARS: Final[Mapping[int, type]] = {
    FieldDescriptor.TYPE_STRING: str,
    FieldDescriptor.TYPE_BYTES: bytes,
    FieldDescriptor.TYPE_BOOL: bool,
    FieldDescriptor.TYPE_DOUBLE: float,
    FieldDescriptor.TYPE_FLOAT: float,
}
"""Types of scalar fields; all others are `int`."""

_WELL_KNOWN: Final[Mapping[tuple[object, str], Converter]] = {
    (float, Duration.DESCRIPTOR.full_name): Converter(
        _duration, lambda message: message.ToTimedelta().total_seconds()
    ),
    (float, Timestamp.DESCRIPTOR.full_name): Converter(
        _timestamp, lambda message: message.ToNanoseconds() / 1e9
    ),
    (datetime, Timestamp.DESCRIPTOR.full_name): Converter(
        None, lambda message: message.ToDatetime(UTC)
    ),
}
