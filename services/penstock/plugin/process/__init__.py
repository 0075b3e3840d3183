"""A plugin's process, here or elsewhere: its start, its log, its connection, its end."""
