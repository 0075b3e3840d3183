"""Streams for the conformance kit, with KIT_REDIS as the port of a server.

entries.py add STREAM FILE     # adds lines as entries that are messages
entries.py show STREAM         # prints the values of the stream
"""

import os
import sys
from pathlib import Path

import redis

PASSWORD = "secret-of-redis"

command, stream, *rest = sys.argv[1:]
client = redis.Redis(
    "127.0.0.1", int(os.environ["KIT_REDIS"]), password=PASSWORD, socket_timeout=20
)
if command == "add":
    for line in Path(rest[0]).read_bytes().splitlines():
        client.xadd(stream, {"value": line})
else:
    for _, fields in client.xrange(stream):
        print(fields[b"value"].decode())
