"""`log-sink`: rows in the log of the task, to look at what comes. It stores nothing.

- `line`   a row as the text that is logged, without its secrets
- `sink`   the keys and the task
"""

from penstock_builtin.log_sink.sink import LogSink, LogSinkConfig

__all__ = ["LogSink", "LogSinkConfig"]
