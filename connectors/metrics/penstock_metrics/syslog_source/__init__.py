"""`syslog-source`: messages of syslog as rows, by UDP, TCP and TLS.

- `config`    the keys
- `framing`   messages of a connection: counted bytes, or lines
- `messages`  RFC 5424 and RFC 3164 as columns
- `source`    the task
"""

from penstock_metrics.syslog_source.source import SyslogSource

__all__ = ["SyslogSource"]
