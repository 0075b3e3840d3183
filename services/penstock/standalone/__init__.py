"""All services in one process, for one machine: the same code, the same gRPC, SQLite instead of
etcd.

- `files`      reads files: properties, JSON, YAML
- `values`     what scalars in them mean: texts as they were written, or JSON's values
- `connector_file` the file of a connector, as every verb reads it
- `chains`     its transforms and predicates
- `pipeline`   a connector that is a pipeline: two ends, no topic
- `settings`   the worker's own keys, and Kafka Connect's that mean something here
- `fronting`   the REST API
- `node`       starts and stops the services of this process
- `reconcile`  makes what runs equal to what is configured
- `quickstart` the first job that a new user runs
"""
