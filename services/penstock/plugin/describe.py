"""What a plugin says about itself, as values: the answer to Describe."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.api.connector.v1 import plugin_service_pb2 as pb
from penstock.model.connector import CommitMode
from penstock.model.described import DescribedKey
from penstock.plugin.installed.manifest import Kind
from penstock.wire.worker import key_from_proto

_KINDS = {
    pb.KIND_SOURCE: Kind.SOURCE,
    pb.KIND_SINK: Kind.SINK,
    pb.KIND_TRANSFORM: Kind.TRANSFORM,
    pb.KIND_CONVERTER: Kind.CONVERTER,
}


@dataclass(frozen=True, slots=True)
class SourceAbilities:
    """What a source can do."""

    partitioned: bool = False
    dynamic_partitions: bool = False
    replayable: bool = False
    needs_commit: bool = False
    alter_offsets: bool = False
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class SinkAbilities:
    """What a sink can do."""

    commit_modes: tuple[CommitMode, ...] = ()
    auto_create: bool = False
    pipelined: bool = False
    alter_offsets: bool = False


@dataclass(frozen=True, slots=True)
class ConnectorSpec:
    """One connector of a plugin. `kind` is None for a kind that this host does not know;
    `enforces_reach`: it keeps to the folders and hosts that it is told.
    """

    name: str
    kind: Kind | None
    title: str = ""
    description: str = ""
    aliases: tuple[str, ...] = ()
    keys: tuple[DescribedKey, ...] = ()
    source: SourceAbilities = SourceAbilities()
    sink: SinkAbilities = SinkAbilities()
    enforces_reach: bool = False

    @property
    def alters_offsets(self) -> bool:
        """Whether it has a say in offsets that people set."""
        return self.source.alter_offsets or self.sink.alter_offsets


@dataclass(frozen=True, slots=True)
class PluginDescription:
    """A plugin: who made it and what it serves."""

    name: str
    version: str
    sdk: str = ""
    features: frozenset[str] = frozenset()
    connectors: tuple[ConnectorSpec, ...] = ()

    def connector(self, name: str) -> ConnectorSpec | None:
        """Return the connector of this name."""
        return next((spec for spec in self.connectors if spec.name == name), None)


def from_proto(message: pb.DescribeResponse) -> PluginDescription:
    """Return the description in a message."""
    return PluginDescription(
        name=message.name,
        version=message.version,
        sdk=message.sdk,
        features=frozenset(message.features),
        connectors=tuple(_spec(spec) for spec in message.connectors),
    )


def commit_mode(number: int) -> CommitMode:
    """Return the mode; one of a newer version reads as unset."""
    return CommitMode(number) if number in list(CommitMode) else CommitMode.UNSPECIFIED


def _spec(message: pb.ConnectorSpec) -> ConnectorSpec:
    source, sink = message.source, message.sink
    return ConnectorSpec(
        name=message.name,
        kind=_KINDS.get(message.kind),
        title=message.title,
        description=message.description,
        aliases=tuple(message.aliases),
        keys=tuple(key_from_proto(key) for key in message.config_keys),
        source=SourceAbilities(
            partitioned=source.partitioned,
            dynamic_partitions=source.dynamic_partitions,
            replayable=source.replayable,
            needs_commit=source.needs_commit,
            alter_offsets=source.alter_offsets,
            bounded=source.bounded,
        ),
        sink=SinkAbilities(
            commit_modes=tuple(commit_mode(mode) for mode in sink.commit_modes),
            auto_create=sink.auto_create,
            pipelined=sink.pipelined,
            alter_offsets=sink.alter_offsets,
        ),
        enforces_reach=message.enforces_reach,
    )
