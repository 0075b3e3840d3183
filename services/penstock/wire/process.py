"""penstock.api.process.v1 ↔ the numbers of a process."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.api.process.v1 import process_service_pb2 as pb
from penstock.model.metrics import Number, ProcessNumbers


def numbers_to_proto(name: str, id_: str, numbers: Iterable[Number]) -> pb.ListNumbersResponse:
    """Return the message for the numbers of a process."""
    return pb.ListNumbersResponse(
        instance_name=name,
        instance_id=id_,
        numbers=[pb.Number(name=n.name, labels=n.labels, value=n.value) for n in numbers],
    )


def numbers_from_proto(service: str, message: pb.ListNumbersResponse) -> ProcessNumbers:
    """Return the numbers of a message of a process of a service."""
    numbers = (Number(n.name, n.value, dict(n.labels)) for n in message.numbers)
    return ProcessNumbers(service, message.instance_name, message.instance_id, tuple(numbers))
