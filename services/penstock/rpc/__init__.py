"""gRPC for all services: servers, channels, statuses, deadlines and traces.

- `server`: a server on a unix socket or host:port with health, reflection, limits and drain; it
  also reports the metrics of its process
- `interceptor`: what interceptors share; errors of calls as statuses, the end of watches when the
  server drains, access by certificate
- `deadlines`: deadlines that name their stage, also for the first message of a call
- `access_control`: the roles that may call each method, and the audit log
- `channels`: options, addresses and TLS of channels, and a channel that follows a service over its
  instances
- `status`: builds gRPC statuses from errors, and errors from statuses
- `traces`: traces that continue in the called service
"""
