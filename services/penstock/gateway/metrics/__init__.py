"""`/metrics`: what Prometheus scrapes, of the whole cluster."""
