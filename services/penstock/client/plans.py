"""Task plans as the messages of an upload, of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from penstock.api.config.v1 import config_service_pb2 as pb
from penstock.model.connector import TaskPlan
from penstock.wire.connector import plan_to_proto

MOST_BYTES: Final = 1 << 20
"""Bytes of one message, beside a single large plan."""


def plan_uploads(
    name: str, generation: str, plans: Sequence[TaskPlan]
) -> Iterator[pb.UploadTaskPlansRequest]:
    """Return the messages that bring plans, in order of number; one at least."""
    request = pb.UploadTaskPlansRequest(name=name, generation=generation)
    size = 0
    for plan in sorted(plans, key=_number):
        message = plan_to_proto(plan)
        size += message.ByteSize()
        if size > MOST_BYTES and request.plans:
            yield request
            request, size = pb.UploadTaskPlansRequest(), message.ByteSize()
        request.plans.append(message)
    yield request


def _number(plan: TaskPlan) -> int:
    number = plan.task_id.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() else -1
