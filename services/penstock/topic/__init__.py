"""Topics: durable, replayable, partitioned logs between connectors.

- `embedded`  a Delta table, written and read without any server
"""
