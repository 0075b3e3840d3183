"""The connectors of a plugin: found by name, described, configured."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import plugin_service_pb2 as pb
from penstock_connector._config import keys_of, parse_config
from penstock_connector._connector import Connector
from penstock_connector._errors import ConfigError, ConnectorError, nearest_fix
from penstock_connector._sink import Sink, TransactionalSink
from penstock_connector._source import Source
from penstock_connector._transform import Converter, Transform
from penstock_connector._values import CommitMode
from penstock_connector.reach import Reaching

_KINDS: Final[tuple[tuple[type[Connector[Any]], pb.Kind], ...]] = (
    (Source, pb.KIND_SOURCE),
    (Sink, pb.KIND_SINK),
    (TransactionalSink, pb.KIND_SINK),
    (Transform, pb.KIND_TRANSFORM),
    (Converter, pb.KIND_CONVERTER),
)

K = TypeVar("K", bound=Connector[Any])


class Connectors:
    """The classes a plugin serves. Names and aliases are unique, as the protocol wants."""

    def __init__(self, classes: Iterable[type[Connector[Any]]]) -> None:
        self.classes = tuple(classes)
        self._by_name: dict[str, type[Connector[Any]]] = {}
        for kind in self.classes:
            for name in (kind.name, *kind.aliases):
                self._add(name, kind)

    def _add(self, name: str, kind: type[Connector[Any]]) -> None:
        if not name:
            raise ConnectorError("plugin.unnamed", f"{kind.__name__} has no name", fix="Set name.")
        other = self._by_name.setdefault(name, kind)
        if other is not kind:
            raise ConnectorError(
                "plugin.name_taken", f"{kind.__name__} and {other.__name__} are both {name!r}"
            )

    def find(self, name: str, kind: type[K] | tuple[type[K], ...] = Connector) -> type[K]:  # type: ignore[assignment] # any
        """Return the class with this name or alias."""
        found = self._by_name.get(name)
        if found is None or not issubclass(found, kind):
            valid = [n for n, c in self._by_name.items() if issubclass(c, kind)]
            raise ConfigError(
                "plugin.unknown_connector",
                f"there is no connector {name!r} of this kind in the plugin",
                fix=nearest_fix(name, valid, "connectors"),
                config_path="connector.class",
            )
        return found

    def describe(self) -> list[pb.ConnectorSpec]:
        """Return what the host shows and checks; needs no configuration."""
        return [spec_of(kind) for kind in self.classes]


def configure(kind: type[Connector[Any]], target: connector_pb.Target, extra: Any = ()) -> Any:
    """Return the typed configuration of a target; `extra` is the task's own part of it."""
    return parse_config(kind.config_type, {**target.config, **target.secrets, **dict(extra)})


def modes_of(kind: type[Connector[Any]]) -> tuple[CommitMode, ...]:
    """Return how a sink can commit, best first."""
    if issubclass(kind, TransactionalSink):
        return kind.commit_modes
    if issubclass(kind, Sink):
        return (CommitMode.IDEMPOTENT, CommitMode.HOST) if kind.idempotent else (CommitMode.HOST,)
    return ()


def kind_of(kind: type[Connector[Any]]) -> pb.Kind:
    """Return what a class is."""
    found = (number for base, number in _KINDS if issubclass(kind, base))
    return next(found, pb.KIND_UNSPECIFIED)


def spec_of(kind: type[Connector[Any]]) -> pb.ConnectorSpec:
    """Return the description of a connector."""
    title, _, description = inspect.cleandoc(kind.__doc__ or kind.name).partition("\n")
    spec = pb.ConnectorSpec(
        name=kind.name,
        kind=kind_of(kind),
        title=kind.title or title.strip(),
        description=description.strip(),
        config_keys=[k.to_proto(i) for i, k in enumerate(keys_of(kind.config_type).values())],
        aliases=kind.aliases,
        enforces_reach=issubclass(kind.config_type, Reaching),
    )
    if issubclass(kind, Source):
        spec.source.CopyFrom(_source_capabilities(kind))
    elif issubclass(kind, Sink | TransactionalSink):
        modes = [int(mode) for mode in modes_of(kind)]
        sink = pb.SinkCapabilities(commit_modes=modes, alter_offsets=kind.alters())  # type: ignore[arg-type] # enums share numbers
        spec.sink.CopyFrom(sink)
    return spec


def _source_capabilities(kind: type[Source[Any]]) -> pb.SourceCapabilities:
    return pb.SourceCapabilities(
        replayable=kind.replayable,
        needs_commit=kind.needs_commit or kind.ack is not Source.ack,
        alter_offsets=kind.alters(),
        bounded=kind.bounded,
    )
