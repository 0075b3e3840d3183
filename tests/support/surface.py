"""Kafka Connect's REST API, as a list of its routes."""

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
