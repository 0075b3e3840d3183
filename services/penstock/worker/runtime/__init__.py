"""A worker's process: its tasks, its session with the scheduler, its gRPC service."""
