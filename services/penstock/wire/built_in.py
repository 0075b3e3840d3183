"""penstock.api.worker.v1.BuiltIn ↔ what a worker has without a plugin."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.api.worker.v1 import worker_service_pb2 as pb


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A transform, a predicate or a converter. `type` is Kafka Connect's word: transformation,
    predicate, converter, header_converter.
    """

    name: str
    type: str
    version: str


def to_proto(one: BuiltIn) -> pb.BuiltIn:
    """Return the message for what is built in."""
    return pb.BuiltIn(name=one.name, type=one.type, version=one.version)


def from_proto(message: pb.BuiltIn) -> BuiltIn:
    """Return what is built in by a message."""
    return BuiltIn(message.name, message.type, message.version)
