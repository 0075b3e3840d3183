"""Spark SQL of users: what it may contain, and what Arrow computes instead."""
