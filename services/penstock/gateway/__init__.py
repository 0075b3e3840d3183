"""The gateway: Kafka Connect's REST API over the services, so that its tools work unchanged.

It holds no state: each request becomes calls of the services, each answer is made of theirs.

- `app`       the ASGI application: its routes, and what every request passes
- `routes`    Kafka Connect's routes, and RocketMQ Connect's; `v1`: those that only Penstock has
- `metrics`   `/metrics`: what Prometheus scrapes
- `access`    who may do what, and a line for every change
- `clients`   the services that requests are carried out by, every worker, every process
- `server`    the HTTP server: where it listens, its certificate, its limits
- `request_body`, `paths`   what a request may bring, and names in paths
- `configs`, `response_bodies`, `errors`   configurations, answers and errors as they are shown
- `offset_changes`   offsets set by hand, once the connector's plugin agrees
- `documents`   the bodies again, for the OpenAPI document
- `settings`    its keys
"""
