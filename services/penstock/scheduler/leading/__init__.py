"""What an instance does while it leads: its store, its sessions with workers, its plans."""
