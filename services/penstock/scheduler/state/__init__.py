"""The state machine of the scheduler: what should run, who is there, who has what. No I/O."""
