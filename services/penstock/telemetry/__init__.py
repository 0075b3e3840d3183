"""Logs, log levels, redaction of secrets, and export of telemetry.

- `logs`: log lines on stderr as text or JSON, their context, and recent lines
- `log_levels`: levels of loggers, changed while the process runs
- `log_redaction`: secrets as values that print `***`, and the filter that redacts them in log lines
- `otlp`: export of traces, metrics and logs, configured by OpenTelemetry's standard variables
- `otlp_export`: the export itself, imported only when a signal is enabled
"""

from penstock.telemetry.log_redaction import (
    MIN_SECRET_LENGTH,
    STACK_TRACE,
    RedactionFilter,
    Secret,
    redact_secrets,
    register_secret,
)
from penstock.telemetry.logs import LogFormat, configure_logging, log_context

__all__ = [
    "MIN_SECRET_LENGTH",
    "STACK_TRACE",
    "LogFormat",
    "RedactionFilter",
    "Secret",
    "configure_logging",
    "log_context",
    "redact_secrets",
    "register_secret",
]
