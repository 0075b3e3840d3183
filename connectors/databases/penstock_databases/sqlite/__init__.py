"""SQLite: files, their catalog, what their cells hold, reading and writing."""
