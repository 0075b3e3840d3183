"""`elasticsearch-sink`: rows as documents of Elasticsearch and OpenSearch.

- `config`, `connection_config`, `keys_without_effect`  the keys
- `document_ids`       which document a row is
- `field_mappings`     types of columns as those of an index
- `documents`          rows as actions of a bulk request
- `resources`          indices, aliases and data streams: their names, and that they are there
- `client`, `answers`  HTTP, and what its answers mean
- `bulk_requests`      actions of a request, and what became of each
- `bulk_writer`        several requests at a time, and again
- `sink`               the task
"""

from penstock_search.elasticsearch_sink.config import ElasticsearchSinkConfig
from penstock_search.elasticsearch_sink.sink import ElasticsearchSink

__all__ = ["ElasticsearchSink", "ElasticsearchSinkConfig"]
