"""Routes of the REST API: Kafka Connect's, and those that belong to no one connector."""

KAFKAS = {
    "GET /", "GET /health", "GET /connectors", "POST /connectors", "GET /connectors/{connector}",
    "DELETE /connectors/{connector}", "GET /connectors/{connector}/config",
    "PUT /connectors/{connector}/config", "PATCH /connectors/{connector}/config",
    "GET /connectors/{connector}/status", "GET /connectors/{connector}/tasks",
    "GET /connectors/{connector}/tasks/{task}/status",
    "POST /connectors/{connector}/tasks/{task}/restart", "POST /connectors/{connector}/restart",
    "PUT /connectors/{connector}/pause", "PUT /connectors/{connector}/resume",
    "PUT /connectors/{connector}/stop", "GET /connectors/{connector}/offsets",
    "PATCH /connectors/{connector}/offsets", "DELETE /connectors/{connector}/offsets",
    "GET /connectors/{connector}/topics", "PUT /connectors/{connector}/topics/reset",
    "GET /connector-plugins", "GET /connector-plugins/{plugin}/config",
    "PUT /connector-plugins/{plugin}/config/validate", "GET /admin/loggers",
    "GET /admin/loggers/{logger}", "PUT /admin/loggers/{logger}",
}  # fmt: skip
"""Kafka Connect 4.3's public REST API."""

NAMED_IN_BODY = frozenset(
    {"POST /connectors", "POST /v1/connectors/validate", "POST /v1/connectors/check",
     "POST /v1/connectors/compare", "POST /v1/connectors/rehearse",
     "POST /v1/connectors/datasets",
     "PUT /connector-plugins/{plugin}/config/validate"}
)  # fmt: skip
"""Routes whose connector is named by the body: who may edit any may ask, and the name is compared
when it is read.
"""

OF_MANY = frozenset(
    {"GET /connectors", "GET /allocated/connectors", "GET /allocated/tasks", "GET /v1/status",
     "GET /v1/kept-offsets", "GET /metrics"}
)  # fmt: skip
"""Routes that tell of many connectors: each person is told of those that he may look at."""
