"""The host side of the plugin protocol: plugin processes, and control streams of tasks to them.

A plugin may hang, crash, send wrong data and flood. Nothing here trusts it, and every wait has a
deadline.

- `host`            `PluginHost`: one process per version of a plugin and connector, shared by
  tasks, restarted with back-off
- `catalog`         installed plugins. `registry`: finds the plugin of a class name; `manifest`:
  `plugin.toml`; `versions`: version order and ranges; `seal`: checksums
- `process`         one plugin process. `startup`: from a manifest to a plugin that serves;
  `plugin_process`: its control calls and its end; `local_process`: launch, environment, memory
  limit; `guard`: runs before the plugin, so that no orphan is left; `handshake`: where the plugin
  listens; `connection`: its channel; `logs`: its output, bounded and redacted; `proxy`: serves it
  at an address for `penstock plugin run`
- `responses`       what the control calls return, as values
- `streams`         `source_stream`, `sink_stream`, `monitor_stream`: the streams of a task and of a
  monitor; `control_stream`: what they share; `source_events`: frames as events of the model
- `protocol_rules`  what a plugin may send, checked without I/O
- `errors`, `limits`  errors with their codes; deadlines, stream limits and launch options
"""
