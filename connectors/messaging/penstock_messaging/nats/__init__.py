"""Streams of NATS JetStream as rows, and rows as their messages."""
