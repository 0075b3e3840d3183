"""gRPC for all services: servers, channels, statuses, deadlines and traces.

- `server`: a server on a unix socket or host:port with health, reflection, limits and drain; it
  also reports the metrics of its process
- `interceptor`: turns the errors of calls into statuses, ends watches when the server drains
- `deadlines`: deadlines that name their stage, also for the first message of a call
- `access_control`: the roles that may call each method, and the audit log
- `channels`: options, addresses and TLS of channels, and a channel that follows a service over its
  instances
- `status`: builds gRPC statuses from errors, and errors from statuses
- `tracing`: traces that continue in the called service
"""

from penstock.rpc.channels import MAX_MESSAGE_BYTES, open_channel
from penstock.rpc.deadlines import deadline, streaming_deadline, unary_deadline
from penstock.rpc.server import Server
from penstock.rpc.status import DIAGNOSTIC_KEY, error_from, status_code

__all__ = [
    "DIAGNOSTIC_KEY",
    "MAX_MESSAGE_BYTES",
    "Server",
    "deadline",
    "error_from",
    "open_channel",
    "status_code",
    "streaming_deadline",
    "unary_deadline",
]
