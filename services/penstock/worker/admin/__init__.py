"""What a worker answers beside its tasks: validation, previews, offsets, dead letters."""
