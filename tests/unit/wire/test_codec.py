"""Every field of every value and message is mapped, or a codec names it as not mapped."""

from __future__ import annotations

import importlib
import pkgutil
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

import penstock.wire
from penstock.api.config.v1 import config_service_pb2 as config_pb
from penstock.api.error.v1 import diagnostic_pb2
from penstock.api.offset.v1 import offset_service_pb2 as offset_pb
from penstock.api.process.v1 import process_service_pb2 as process_pb
from penstock.api.record.v1 import record_pb2
from penstock.api.scheduler.v1 import scheduler_service_pb2 as scheduler_pb
from penstock.api.worker.v1 import worker_service_pb2 as worker_pb
from penstock.model.connector import ConnectorKind, TargetState, TaskState
from penstock.model.errors import Diagnostic, ErrorClass
from penstock.wire.codec import Codec, Converter, CustomCodec
from penstock.wire.config import CONNECTOR
from penstock.wire.error import DIAGNOSTIC
from penstock.wire.worker import TASK_STATUS

FILES = (config_pb, diagnostic_pb2, offset_pb, process_pb, record_pb2, scheduler_pb, worker_pb)

WRITTEN_BY_HAND = {
    "RejectedRow",  # wire/worker_rows.py
    *("Value", "ListValue", "StructValue", "PartitionOffset", "PartitionRange"),  # wire/record.py
    # rows: plugin/protocol_rules.py, spark/connector_io/frames.py
    *("Schema", "Batch", "MemoryFile"),
    *("MonitorReport", "MonitorAssignment", "KeptTask"),  # a session of a worker
}

EXAMPLES: Mapping[tuple[str, str], Any] = {
    ("Partition", "known_id"): "",  # that of its key
    ("InstalledConnector", "kind"): "sink",
    ("KeyDefinition", "type"): "int",
    ("LogFilter", "level"): 30,
    ("LogFilter", "tail"): 7,
    ("LogLine", "level"): 40,
    ("DeadLetterQuery", "limit"): 9,
    ("PreviewResult", "failed"): ((3, Diagnostic("a.b", "text")),),
}
"""Values of fields with a converter; the others follow from their type."""

ONLY_HERE = {"service": "worker", "stage": "mask"}
"""Fields that the caller of `from_proto` gives."""


def all_codecs() -> list[Codec[Any, Any]]:
    found: dict[int, Codec[Any, Any]] = {}

    def add(one: Any) -> None:
        if isinstance(one, Codec):
            found[id(one)] = one
            for part in one._parts.values():
                add(part)

    for module in pkgutil.iter_modules(penstock.wire.__path__, "penstock.wire."):
        for one in vars(importlib.import_module(module.name)).values():
            add(one)
    return list(found.values())


def name_of(codec: Any) -> str:
    return f"{codec.value_type.__name__}-{codec.message_type.DESCRIPTOR.name}"


CODECS = pytest.mark.parametrize("codec", all_codecs(), ids=name_of)


def example(hint: Any, full: bool) -> Any:
    """Return a value of a type that differs from the default of a message, or an empty one."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        return example(arguments[0], full) if full else None
    if origin in {tuple, Sequence}:
        return (example(arguments[0], full),) if full else ()
    if origin in {Mapping, dict}:
        return {"k": example(str if arguments[1] is Any else arguments[1], True)} if full else {}
    if is_dataclass(hint):
        return example_of(hint, full)
    if issubclass(hint, IntEnum):
        return list(hint)[-1] if full else hint(0)
    if hint is datetime:
        return datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
    if not full:
        return hint()
    return {int: 3, float: 2.5, str: "text", bytes: b"bytes", bool: True}[hint]


def example_of(kind: Any, full: bool, without: Sequence[str] = ()) -> Any:
    hints = get_type_hints(kind)
    return kind(
        **{
            field.name: ONLY_HERE[field.name]
            if field.name in ONLY_HERE
            else EXAMPLES.get((kind.__name__, field.name), example(hints[field.name], full))
            for field in fields(kind)
            if field.name not in without or field.name in ONLY_HERE
        }
    )


@CODECS
def test_every_field_is_mapped_or_named(codec):
    assert codec.to_proto
    assert codec.from_proto


@pytest.mark.parametrize("full", [True, False], ids=["full", "empty"])
@CODECS
def test_a_value_survives_the_wire(codec, full):
    value = example_of(codec.value_type, full, codec._only_in_value)
    if codec is CONNECTOR and not full:
        value = replace(value, target_state=TargetState.RUNNING)
    message = codec.message_type.FromString(codec.to_proto(value).SerializeToString())
    others = {name: ONLY_HERE[name] for name in codec._only_in_value if name in ONLY_HERE}
    assert codec.from_proto(message, **others) == value
    if full:
        named = set(codec._only_in_message)
        unset = {field.name for field in codec.message_type.DESCRIPTOR.fields} - named
        unset -= {field.name for field, _ in message.ListFields()}
        assert not unset, "each field of the message was written"


def test_every_message_of_the_services_is_mapped_or_named():
    mapped = {codec.message_type.DESCRIPTOR.name for codec in all_codecs()}
    customs = {"Offset", "Partition"}
    known = {
        message
        for file in FILES
        for message in file.DESCRIPTOR.message_types_by_name
        if not message.endswith(("Request", "Response"))  # a service or a client fills these
    }
    assert known - mapped - customs == WRITTEN_BY_HAND
    assert not mapped & WRITTEN_BY_HAND


@dataclass(frozen=True, slots=True)
class Level:
    service: str
    logger: str
    level: str


@dataclass(frozen=True, slots=True)
class Wrong:
    service: int
    logger: str
    level: str
    modified_at: float


@pytest.mark.parametrize(
    ("value_type", "options", "text"),
    [
        (Level, {}, "fields of one side only: modified_at"),
        (Level, {"only_in_message": ["modified_at", "x"]}, "only: x"),
        (Level, {"only_in_message": ["modified_at"], "names": {"levle": "level"}}, "levle"),
        (Level, {"only_in_message": ["modified_at"], "names": {"level": "levle"}}, "level, levle"),
        (Level, {"only_in_message": ["modified_at"], "converters": {"x": Converter()}}, "only: x"),
        (Wrong, {}, "Wrong.service is a .* no conversion to .*LogLevel.service"),
    ],
)
def test_a_codec_that_leaves_a_field_out_fails(value_type, options, text):
    with pytest.raises(TypeError, match=text):
        Codec(value_type, config_pb.LogLevel, **options).to_proto  # noqa: B018 - made at first use


def test_a_nested_message_needs_a_part():
    codec = Codec(Diagnostic, diagnostic_pb2.Diagnostic)
    with pytest.raises(TypeError, match="retry_after"):
        codec.to_proto  # noqa: B018 - made at first use
    with pytest.raises(TypeError, match=r"restarts is a .* Give the codec a part"):
        Codec(CONNECTOR.value_type, config_pb.Connector).to_proto  # noqa: B018 - as above


def test_numbers_of_a_newer_version_read_as_unset():
    connector = config_pb.Connector(name="a", kind=99, target_state=99)
    assert CONNECTOR.from_proto(connector).kind is ConnectorKind.UNSPECIFIED
    assert CONNECTOR.from_proto(connector).target_state is TargetState.RUNNING
    assert TASK_STATUS.from_proto(worker_pb.TaskStatus(state=99)).state is TaskState.UNSPECIFIED
    failed = diagnostic_pb2.Diagnostic(code="a.b", error_class=99, severity=99)
    assert DIAGNOSTIC.from_proto(failed).error_class is ErrorClass.UNSPECIFIED


def test_a_codec_by_hand_is_a_part_like_others():
    assert {type(one) for codec in all_codecs() for one in codec._parts.values()} == {
        Codec,
        CustomCodec,
    }
