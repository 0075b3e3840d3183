"""How services are watched.

- `logs`    logging as text or JSON lines on stderr
- `attributes` which connector and task a line is about
- `recent`  the last lines, for people who read along from elsewhere
- `levels`  levels of loggers, changed while the process runs
- `redact`  secrets as values that print `***`, and a filter that keeps them out of log lines
- `otlp`    traces, metrics and logs to a collector, by OpenTelemetry's standard variables;
            `sending` is what sends them, imported only then; `usage` what this process uses
"""

from penstock.telemetry.attributes import attributed
from penstock.telemetry.logs import LogFormat, set_up
from penstock.telemetry.redact import SHORTEST, TRACE, Redaction, Secret, masked, register_secret

__all__ = [
    "SHORTEST",
    "TRACE",
    "LogFormat",
    "Redaction",
    "Secret",
    "attributed",
    "masked",
    "register_secret",
    "set_up",
]
