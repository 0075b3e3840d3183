"""penstock.api.connector.v1 ↔ task plans, configured connectors, prepared transactions, keys."""

from __future__ import annotations

from typing import Final

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.model.config_def import ConfigValue, KeyDefinition
from penstock.model.connector import Target, TaskPlan
from penstock.model.stream import PreparedTxn
from penstock.wire.codec import Codec, Converter
from penstock.wire.record import PARTITION

PLAN: Final = Codec(TaskPlan, connector_pb.TaskPlan, parts=[PARTITION])

TARGET: Final = Codec(
    Target,
    connector_pb.Target,
    # a name `plugin/connector` is sent without its plugin, which the plugin process does not need
    converters={"connector": Converter(to_proto=lambda name: name.rpartition("/")[2])},
    only_in_value=["version"],
)

PREPARED: Final = Codec(PreparedTxn, sink_pb.PreparedTxn)

KEY: Final = Codec(
    KeyDefinition,
    plugin_pb.ConfigKey,
    names={"default": "default_value"},
    converters={"type": Converter(from_proto=lambda word: word or "string")},
)

VALUE: Final = Codec(ConfigValue, connector_pb.ConfigValue, only_in_message=["diagnostics"])
