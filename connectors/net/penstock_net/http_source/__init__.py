"""`http-source`: rows of web APIs, by polling.

- `config`     the keys
- `pointer`    places in a JSON document
- `decoding`   an answer as rows: JSON, JSON lines, CSV
- `columns`    rows as Arrow columns, of types that are given or found
- `converting` rows that are messages of a converter
- `asking`     the address and the body of a request for a position
- `walking`    how the next position follows from an answer, and what the offset is
- `cursor`     the same by a growing field of the rows
- `source`     the task
"""

from penstock_net.http_source.config import HttpSourceConfig
from penstock_net.http_source.source import HttpSource

__all__ = ["HttpSource", "HttpSourceConfig"]
