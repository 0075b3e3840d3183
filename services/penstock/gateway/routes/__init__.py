"""Kafka Connect's routes, and RocketMQ Connect's."""
