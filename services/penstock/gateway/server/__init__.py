"""The HTTP server: where it listens, its certificate, its limits."""
