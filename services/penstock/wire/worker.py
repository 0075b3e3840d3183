"""penstock.api.worker.v1 ↔ task status, plugins, and the answers about a connector."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.model.connector import TaskState, TaskStatus
from penstock.wire import error

_KINDS = {
    plugin_pb.KIND_SOURCE: "source",
    plugin_pb.KIND_SINK: "sink",
    plugin_pb.KIND_TRANSFORM: "transform",
    plugin_pb.KIND_CONVERTER: "converter",
}

_STATES = frozenset(map(int, TaskState))


@dataclass(frozen=True, slots=True)
class InstalledConnector:
    """A connector of a plugin. `kind`: source, sink, transform, converter."""

    name: str
    kind: str
    title: str = ""
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A plugin on a worker."""

    name: str
    version: str
    connectors: tuple[InstalledConnector, ...] = ()


def status_to_proto(status: TaskStatus) -> pb.TaskStatus:
    """Return the message for a task's status."""
    return pb.TaskStatus(
        task_id=status.task_id,
        connector=status.connector,
        epoch=status.epoch,
        state=int(status.state),  # type: ignore[arg-type] # enums share numbers
        diagnostic=None if status.diagnostic is None else error.to_proto(status.diagnostic),
        rows_read=status.rows_read,
        rows_written=status.rows_written,
        bytes_read=status.bytes_read,
        batches=status.batches,
        bytes_left=status.bytes_left,
        rows_left=status.rows_left,
        restarts=status.restarts,
    )


def status_from_proto(message: pb.TaskStatus) -> TaskStatus:
    """Return the status of a message. A state of a newer version reads as unset."""
    known = int(message.state) in _STATES
    return TaskStatus(
        task_id=message.task_id,
        connector=message.connector,
        epoch=message.epoch,
        state=TaskState(message.state) if known else TaskState.UNSPECIFIED,
        diagnostic=(
            error.from_proto(message.diagnostic) if message.HasField("diagnostic") else None
        ),
        rows_read=message.rows_read,
        rows_written=message.rows_written,
        bytes_read=message.bytes_read,
        batches=message.batches,
        bytes_left=message.bytes_left,
        rows_left=message.rows_left,
        restarts=message.restarts,
    )


def plugin_to_proto(plugin: InstalledPlugin) -> pb.InstalledPlugin:
    """Return the message for an installed plugin."""
    kinds = {word: number for number, word in _KINDS.items()}
    return pb.InstalledPlugin(
        name=plugin.name,
        version=plugin.version,
        connectors=[
            plugin_pb.ConnectorSpec(
                name=c.name,
                kind=kinds.get(c.kind, plugin_pb.KIND_UNSPECIFIED),
                title=c.title,
                aliases=c.aliases,
            )
            for c in plugin.connectors
        ],
    )


def plugin_from_proto(message: pb.InstalledPlugin) -> InstalledPlugin:
    """Return the installed plugin of a message."""
    return InstalledPlugin(
        message.name,
        message.version,
        tuple(
            InstalledConnector(c.name, _KINDS.get(c.kind, ""), c.title, tuple(c.aliases))
            for c in message.connectors
        ),
    )
