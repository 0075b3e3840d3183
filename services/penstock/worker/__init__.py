"""The worker service: it runs tasks, and does what only a machine with the plugins can do.

A task is one loop: **source → transform chain → sink → commit offsets**. The worker is its driver
and handles control only: rows go from source to sink inside a Spark job and never pass through this
process, except the few that are shown to a user who inspects them.

A package imports only those below it:

- `runtime`       the process: `worker` starts engine, plugins and topics; `task_registry` makes
  the tasks that run equal to the newest assignment; `task_factory` creates them;
  `scheduler_session` sends reports and receives assignments; `topic_tracking`, `otel_metrics`;
  `service` is the gRPC service
- `admin`         operations beside tasks: `connector_plugins` (definitions and validation),
  `datasets` of a source, `preview` (in a process of its own: `preview_process`, `preview_server`),
  `external_state` of connectors, `dead_letter_reader`
- `streams`       the source reader and the sink writer of a run, by the kind of its connector
- `task_plans`    splits a connector into tasks
- `task`          `task_run` is one run; a micro-batch passes `micro_batches`, `execution`,
  `commit`, `source_acks`; `task`, `monitor` and `supervisor` start runs, again after failures;
  `task_offsets`, `live_rows`, `metrics`
- `dead_letters`  `rejected_rows`: what happens to them; `dead_letter_writer`, `replay`
- `config`        `resolved_config`: a configuration with the values of its secret references;
  `reach`: the bounds of a node; `plugin_transforms`, `plugin_converters`
- `ports`         what a task needs of source, sink and engine; `job_retries`
- `process_keys`, `process_settings`  the keys of a worker's process
"""
