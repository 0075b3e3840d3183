"""The leader of the scheduler: its election, its store, its sessions with workers, its plans."""
