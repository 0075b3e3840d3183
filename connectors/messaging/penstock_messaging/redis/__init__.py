"""Streams, hashes and strings of Redis: `redis-source` and `redis-sink`."""
