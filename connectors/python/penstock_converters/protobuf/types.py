"""What Protobuf's schemas describe: messages, their fields, and enums. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class ProtoEnum:
    """An enum: its symbols with their numbers."""

    name: str
    values: list[tuple[str, int]] = field(default_factory=list)


@dataclass(slots=True)
class ProtoField:
    """A field of a message.

    Attributes:
        kind: A scalar, `message` or `enum`; of one that is not resolved yet, the name.
        label: `optional`, `required`, `repeated`, or "".
        type: The message or enum.
        oneof: Name and number of the oneof that it is in.
        packed: What the field says itself of numbers that follow each other.
        parameters: Kafka Connect's, written by Confluent's converter.
    """

    name: str
    number: int
    kind: str
    label: str = ""
    type: ProtoMessage | ProtoEnum | None = None
    oneof: tuple[str, int] | None = None
    packed: bool | None = None
    parameters: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ProtoMessage:
    """A message.

    Attributes:
        name: Its full name.
        fields: In the order in which they are declared.
        is_proto3: Whether fields without a label are absent when they have their default.
    """

    name: str
    is_proto3: bool
    fields: list[ProtoField] = field(default_factory=list)
    messages: list[ProtoMessage] = field(default_factory=list)
    oneofs: list[str] = field(default_factory=list)

    @property
    def is_map_entry(self) -> bool:
        """Whether it is an entry of a map, by its name and fields."""
        plain = all(one.label != "repeated" for one in self.fields)
        names = [one.name for one in self.fields]
        return self.name.endswith("Entry") and plain and names == ["key", "value"]
