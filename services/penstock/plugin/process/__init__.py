"""A plugin process, local or remote: its start, log, connection and end."""
