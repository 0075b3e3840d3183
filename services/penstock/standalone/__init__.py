"""All services in one process, for one machine: the same code and the same gRPC, with SQLite
instead of etcd.

- `settings`    the keys of the process, its state folder and its scratch folder
- `node`        starts and stops the services; runs connectors
"""
