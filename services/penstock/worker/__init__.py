"""The worker service: it runs tasks, and answers what only a machine with the plugins can.

A task is one loop: **source → transform chain → sink → commit offsets**. Its driver, here, handles
control only: rows go from source to sink inside a Spark job and never pass through this process,
except the few that are shown to a user who inspects them.

A package imports only those below it:

- `runtime`       the process: `host` starts engine, plugins and topics; `task_registry` makes the
  tasks that run equal to the newest assignment; `scheduler_session` reports and gets assignments;
  `task_factory`, `topic_tracking`, `otel_metrics`; `service` is the gRPC surface
- `admin`         what a worker answers beside its tasks: `validation`, `definitions` of keys,
  `preview` (in a process of its own: `preview_process`), `external_state` of connectors,
  `dead_letters` of a topic; `operations` collects them
- `endpoints`     the source and the sink that the kind of a connector has
- `planning`      `plans` splits a connector into tasks; `monitor` asks for another split
- `config`        `sections`: whose keys are whose; `settings`: the framework's keys as values;
  `resolved_config`: the values of references; `reach`, `client_overrides`: what nodes allow;
  `key_rules`: keys that depend on each other; `plugin_transforms`
- `task`          `task_run` is one run; `batching` → `execution` → `commit` → `source_acks` is
  the way of a micro-batch; `supervisor` and `task` restart runs; `metrics`, `live_rows`,
  `schema_drift`
- `dead_letters`  `rejected_rows`: how many are tolerated; `publishing`, `replay`
- `ports`         what a task needs of source, sink and engine; `job_retries`, `redacted`
- `process_keys`, `process_settings`  the keys of a worker's process
"""
