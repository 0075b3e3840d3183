"""The process of a worker.

- `worker`             the worker with its engine, plugins and topics, started and stopped together
- `task_registry`      the tasks that run, made equal to the newest assignment
- `task_factory`       creates tasks and monitors from assignments
- `scheduler_session`  reports to the scheduler, assignments from it
- `topic_tracking`     topics of connectors, reported to the config service
- `otel_metrics`       metrics of the tasks for OpenTelemetry
- `service`            the gRPC service
"""
