"""Topics: durable, replayable, partitioned logs between connectors.

- `embedded`  a topic is a Delta table in a folder or a bucket, without a server
"""
