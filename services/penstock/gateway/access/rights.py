"""What each route needs. A route that is not here is refused to all: a test names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.gateway.access.people import Level

OPEN: Final = frozenset({"GET /health"})
"""What probes ask, who have no name; it tells whether everything answers, and nothing else."""

_LOOKS: Final = (
    "GET /", "GET /openapi.json", "GET /connectors", "GET /connectors/{connector}",
    "GET /connectors/{connector}/config", "GET /connectors/{connector}/status",
    "GET /connectors/{connector}/tasks", "GET /connectors/{connector}/tasks/{task}/status",
    "GET /connectors/{connector}/topics", "GET /connectors/{connector}/offsets",
    "GET /connector-plugins", "GET /connector-plugins/{plugin}/config",
    "GET /v1/connectors/{connector}", "GET /v1/connectors/{connector}/revisions",
    "GET /v1/connectors/{connector}/revisions/{version}", "GET /v1/connectors/{connector}/diff",
    "GET /v1/connectors/{connector}/offsets/history", "GET /v1/cluster", "GET /v1/status",
    "GET /getClusterInfo", "GET /allocated/connectors", "GET /allocated/tasks",
    "GET /plugin/list", "GET /plugin/list/connectors", "GET /admin/loggers",
    "GET /admin/loggers/{logger}", "GET /metrics",
)  # fmt: skip

_STEERS: Final = (
    "PUT /connectors/{connector}/pause", "PUT /connectors/{connector}/resume",
    "PUT /connectors/{connector}/stop", "POST /connectors/{connector}/stop",
    "POST /connectors/{connector}/restart", "POST /connectors/{connector}/tasks/{task}/restart",
    "PATCH /connectors/{connector}/offsets", "DELETE /connectors/{connector}/offsets",
    "PUT /connectors/{connector}/topics/reset", "POST /v1/connectors/{connector}/offsets/rewind",
    "GET /v1/connectors/{connector}/tasks/{task}/rows", "GET /v1/connectors/{connector}/logs",
    "GET /v1/connectors/{connector}/letters", "GET /v1/connectors/{connector}/letters/replay",
)  # fmt: skip

_EDITS: Final = (
    "POST /connectors", "POST /connectors/{connector}", "DELETE /connectors/{connector}",
    "PUT /connectors/{connector}/config", "PATCH /connectors/{connector}/config",
    "POST /v1/connectors/{connector}/letters/replay",
    "POST /v1/connectors/{connector}/rollback", "POST /v1/connectors/validate",
    "POST /v1/connectors/check", "POST /v1/connectors/compare",
    "POST /v1/connectors/rehearse",
    # references are looked up for it
    "PUT /connector-plugins/{plugin}/config/validate",
)  # fmt: skip

_RULES: Final = (
    "PUT /admin/loggers/{logger}", "PUT /v1/workers/{worker}/drain",
    "DELETE /v1/workers/{worker}/drain", "GET /plugin/reload", "GET /v1/logs",
)  # fmt: skip

NEEDED: Final[Mapping[str, Level]] = {
    **dict.fromkeys(_LOOKS, Level.VIEWER),
    **dict.fromkeys(_STEERS, Level.OPERATOR),
    **dict.fromkeys(_EDITS, Level.EDITOR),
    **dict.fromkeys(_RULES, Level.ADMIN),
}
"""The level that each route needs, by its method and path."""
