"""The host side of the plugin protocol: plugin processes, and the control streams of tasks to them.

From the outside in:

- `registry`, `manifest`, `installed`: what is installed; a class name leads to a command and
  nothing else does. `versions`: which of several; `seal`: whether its files are what they were;
  `fingerprint`: whether they changed
- `host`: `PluginHost`, one process per version of a plugin and connector, shared, restarted with
  back-off
- `starting`: from a manifest to a plugin that serves; `process`, `control`: one that does, and what
  it can be asked; `remote`: one that runs elsewhere
- `reading`, `writing`: the two ends of a task, as the worker's ports want them; `monitoring`: what
  a connector finds while it runs
- `read_rules`, `write_rules`, `schemas`, `events`: what a plugin may send, as pure rules
- `stream`, `link`, `failures`, `deadlines`, `heartbeat`, `limits`: a call that has an end with one
  reason
- `launch`, `guard`, `handshake`, `running`, `memory`: a process with a clean environment, bounded
  memory, and no orphan
- `numbers`: what a plugin measures of itself
- `logs`, `lines`, `escape`, `redact`: what a plugin prints, made harmless
- `serving`: a plugin at an address, for its author

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
