"""All services in one process, for one machine: the same code, the same gRPC, SQLite instead of
etcd.

- `settings`   the worker's own keys, and Kafka Connect's that mean something here
- `fronting`   the REST API
- `node`       starts and stops the services of this process
- `reconcile`  makes what runs equal to what is configured
- `quickstart` the first job that a new user runs
"""
