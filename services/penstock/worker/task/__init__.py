"""One run of a task: what is read, moved through the engine, written and committed."""
