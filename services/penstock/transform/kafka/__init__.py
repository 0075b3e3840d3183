"""Kafka Connect's transforms, and ours of the same kind."""
