"""The gateway: Kafka Connect's REST API over the services, so that its tools work unchanged.

It keeps no state. Each request becomes calls of the services; each response is built from their
answers.

- `app`       the ASGI application: its routes and middleware
- `routes`    Kafka Connect's routes; `v1`: routes that only Penstock has
- `rocketmq_connect`   RocketMQ Connect's API, at listeners of its own
- `access`    authentication, roles, rate limits, the audit log
- `clients`   clients of the services, calls of all workers and all processes
- `http_server`, `listeners`   the HTTP server with its bounds; listeners and their certificate
- `request_input`, `configs`   JSON bodies and names in paths; configurations
- `bodies`, `errors`   bodies of responses as models; errors as statuses and bodies
- `cluster_metrics`, `task_metrics`   `/metrics` for Prometheus
- `settings`  the keys of the gateway
"""
