"""The host side of the plugin protocol: plugin processes, and the control streams of tasks to them.

- `installed`   `registry`: a class name leads to a command, and nothing else does; `manifest`,
  `versions`, `seal`, `remote`
- `host`        `PluginHost`: one process per version of a plugin and connector, shared, restarted
  with back-off
- `process`     `start`: from a manifest to a plugin that serves; `plugin_process`: one that does;
  `launch`, `guard`, `handshake`, `local_process`, `memory`: a clean environment, bounded memory, no
  orphan; `connection`: its channel; `logs`: what it prints, made harmless; `serving`: a plugin at
  an address, for its author
- `control`, `answers`, `describe`   what it can be asked
- `streams`     `source_stream`, `sink_stream`, `monitor_stream`, as the worker's ports want them;
  `read_rules`, `write_rules`, `schemas`, `source_events`: what a plugin may send, as pure rules
- `errors`, `deadlines`   a call that has an end with one reason

A plugin may hang, crash, lie and flood; nothing here believes it, and every wait has a deadline.
"""

from penstock.plugin.answers import (
    Applied,
    CheckStep,
    ConfigValue,
    Planned,
    Validation,
)
from penstock.plugin.deadlines import Deadlines
from penstock.plugin.describe import (
    ConnectorSpec,
    PluginDescription,
    SinkAbilities,
    SourceAbilities,
)
from penstock.plugin.host import PluginHost
from penstock.plugin.installed.manifest import ConnectorEntry, Kind, Manifest
from penstock.plugin.installed.registry import PluginPath, Registry
from penstock.plugin.process.plugin_process import PluginProcess
from penstock.plugin.process.serving import Serving
from penstock.plugin.process.start import Ground, start_plugin
from penstock.plugin.streams.monitor_stream import PluginMonitor
from penstock.plugin.streams.sink_stream import PluginWriteStream
from penstock.plugin.streams.source_events import PluginNumbers
from penstock.plugin.streams.source_stream import PluginReadStream
from penstock.plugin.streams.write_rules import StreamLimits

__all__ = [
    "Applied",
    "CheckStep",
    "ConfigValue",
    "ConnectorEntry",
    "ConnectorSpec",
    "Deadlines",
    "Ground",
    "Kind",
    "Manifest",
    "Planned",
    "PluginDescription",
    "PluginHost",
    "PluginMonitor",
    "PluginNumbers",
    "PluginPath",
    "PluginProcess",
    "PluginReadStream",
    "PluginWriteStream",
    "Registry",
    "Serving",
    "SinkAbilities",
    "SourceAbilities",
    "StreamLimits",
    "Validation",
    "start_plugin",
]
