"""Analytical databases, in one plugin: `python -m penstock_analytics`.

- `clickhouse_sink`   rows in tables of ClickHouse, over HTTP; exactly once

`plugin.toml` is the manifest by which a host finds them. The READMEs have every key.
"""

from penstock_analytics.clickhouse_sink import ClickHouseSink

__all__ = ["CONNECTORS", "ClickHouseSink"]

CONNECTORS = (ClickHouseSink,)
"""What the plugin serves."""
