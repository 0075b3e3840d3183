"""`http-sink`: rows as requests, in their order, at least once.

- `config`     the keys
- `template`   texts with `${column}` in them: addresses, bodies, keys
- `jsontext`   a row as JSON
- `bodies`     rows as bodies of requests, cut by rows and bytes
- `sending`    requests that are sent, and tried again; several lanes at once
- `sink`       the task
"""

from penstock_net.http_sink.config import HttpSinkConfig
from penstock_net.http_sink.sink import HttpSink

__all__ = ["HttpSink", "HttpSinkConfig"]
