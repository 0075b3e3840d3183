"""Servers for searching, in one plugin: `python -m penstock_search`.

- `elasticsearch_sink`   rows as documents of Elasticsearch and OpenSearch

`plugin.toml` is the manifest by which a host finds it. The READMEs have every key.
"""

from penstock_search.elasticsearch_sink import ElasticsearchSink

__all__ = ["CONNECTORS", "ElasticsearchSink"]

CONNECTORS = (ElasticsearchSink,)
"""What the plugin serves."""
