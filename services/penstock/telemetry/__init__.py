"""How services are watched.

- `logs`    logging as text or JSON lines on stderr, each line attributed to connector and task
- `levels`  levels of loggers, changed while the process runs
- `redact`  secrets as values that print `***`, and a filter that keeps them out of log lines

Metrics and traces get a file each beside these.
"""

from penstock.telemetry.logs import LogFormat, attributed, set_up
from penstock.telemetry.redact import MASK, Redaction, Secret, register_secret

__all__ = [
    "MASK",
    "LogFormat",
    "Redaction",
    "Secret",
    "attributed",
    "register_secret",
    "set_up",
]
