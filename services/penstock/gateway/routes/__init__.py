"""Kafka Connect's routes, and those of RocketMQ Connect.

- `connectors`  `/connectors`: create, read, change, delete; pause, resume, stop, restart; topics
- `offsets`     `/connectors/{connector}/offsets`: read, alter, reset
- `plugins`     `/connector-plugins`: installed plugins, their keys, validation
- `loggers`     `/admin/loggers`: log levels of workers
- `root`        `/`, `/health`, `/openapi.json`
- `page`        `/ui`, for browsers; its files are in `../page`
- `rocketmq`    RocketMQ Connect's routes
"""
