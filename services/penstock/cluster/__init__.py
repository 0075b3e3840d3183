"""The services of a cluster, each a process: found by the others while it lives.

- `keys`       the keys of each service
- `settings`   what each process is told, by a file or by the environment
- `instance`   one instance of a service: its etcd, its store, its server, its registration
- `control_process`    the config and the offset service
- `scheduler_process`  the scheduler: stands for election, follows the members
- `worker_process`     a worker: hosts tasks, gives them up when others may believe that it is gone
- `gateway_process`    the gateway: REST over the services that it finds
- `local`      a whole cluster on one machine: started, stopped, looked at
  (`local_parts`: what it consists of; `detached`: processes that outlive a command)

Services meet over gRPC, at addresses that they find under `members/` in etcd; nothing else is
shared. State is in the store: a process that ends loses nothing.
"""
