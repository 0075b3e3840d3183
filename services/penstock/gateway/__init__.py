"""The gateway: Kafka Connect's REST API over the services, so that its tools work unchanged.

It holds no state: each request becomes calls of the services, each answer is made of theirs.

- `app`         the ASGI application: its routes, and what every request passes
- `asks`        the services that requests are carried out by; `everywhere` asks every worker,
                `processes` every process for its numbers
- `paths`       names in paths, whatever is in them; `body` what a request may bring
- `failures`    errors of the services as statuses and bodies
- `configs`     configurations as they are written and shown; `shapes` the rest that is shown
- `connectors`, `steering`, `offsets`, `topics`, `plugins`, `loggers`, `about`   the routes;
                `rocketmq` those of RocketMQ Connect
- `altering`    offsets set by hand, once the connector's plugin agrees
- `keys`        keys of plugins and their values
- `access`      who may do what, and a line for every change
- `v1`          what Kafka Connect has no words for
- `documents`   the shapes again, for the OpenAPI document
- `settings`    its keys
- `listening`   the HTTP server; `places` where it listens, `certificates` what it shows there
"""
