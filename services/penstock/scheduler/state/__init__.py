"""The state machine of the scheduler: members, desired tasks, owners, restarts, plans. No I/O."""
