"""The services of a cluster, each a process, which find each other in etcd.

- `keys`             the keys of each service, in a file or as variables
- `settings`         the settings of a process, read from both
- `instance`         one instance of a service: etcd, store, server, registration, place of topics
- `control_process`  the config service, the offset service, and the scheduler, which is elected
- `worker_process`   a worker: runs tasks as long as it is a member
- `gateway_process`  the gateway: REST over the other services
- `grants`           the rights of each service in etcd
- `local`            a whole cluster on one machine: start, stop, status
- `detached_process` processes that outlive a command

Services call each other over gRPC, at addresses under `members/` in etcd. Nothing else is shared.
State is in the store: a process that ends loses nothing.
"""


class EngineLostError(Exception):
    """The JVM of a worker is lost: its process must start anew."""
