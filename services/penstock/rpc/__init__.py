"""gRPC for every service: servers, channels, statuses and deadlines, the same everywhere.

- `server`       a server on a unix socket or host:port: health, reflection, limits, drain; who
  begins a call sends its request soon
- `interceptor`  what every call passes: errors become statuses, watches end when draining
- `process`      tells the numbers of the process
- `mutual_tls`   TLS with certificates on both sides; `access_control`: who may call what, and a
  line for every change
- `status`       the only place that builds a gRPC status from an error, and reads it back
- `channels`     channels with the same limits as the servers, and the forms of an address
- `deadlines`    a deadline that names its stage
- `tracing`      a trace that goes on in the service that is called
"""

from penstock.rpc.channels import MAX_MESSAGE_BYTES, is_unix, open_channel
from penstock.rpc.deadlines import deadline, stepwise, within
from penstock.rpc.server import Server
from penstock.rpc.status import DIAGNOSTIC_KEY, error_from, raise_from, status_code

__all__ = [
    "DIAGNOSTIC_KEY",
    "MAX_MESSAGE_BYTES",
    "Server",
    "deadline",
    "error_from",
    "is_unix",
    "open_channel",
    "raise_from",
    "status_code",
    "stepwise",
    "within",
]
