"""The web, in one plugin: `python -m penstock_net`.

- `http_source`   rows of web APIs, by polling
- `http_sink`     rows as requests to web APIs
- `web`           what goes over the wire: a request, its answer, logins, errors

`plugin.toml` is the manifest by which a host finds them. The READMEs have every key.
"""

from penstock_net.http_sink import HttpSink
from penstock_net.http_source import HttpSource

__all__ = ["CONNECTORS", "HttpSink", "HttpSource"]

CONNECTORS = (HttpSource, HttpSink)
"""What the plugin serves."""
