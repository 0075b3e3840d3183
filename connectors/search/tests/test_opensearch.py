"""The same sink with a real OpenSearch; data streams, aliases, what is made elsewhere."""

import pyarrow as pa
import pytest

from penstock_connector.testing import RemoteError, sink_task
from penstock_search import ElasticsearchSink
from support.search_rows import MESSAGES, OFFSETS, keys, rejected, rows_of, write


def test_rows_are_documents_of_opensearch_too(opensearch, topic):
    first = rows_of(MESSAGES, ("a", "Ann", 0, 1), ("b", "Bob", 0, 2))
    write(opensearch, topic, first)
    write(opensearch, topic, rows_of(MESSAGES, ("a", "Anna", 0, 3)))
    write(opensearch, topic, first)
    assert opensearch.documents(topic) == {"a": {"name": "Anna"}, "b": {"name": "Bob"}}


def test_bad_rows_are_told_by_opensearch_too(opensearch, topic):
    opensearch.request("PUT", f"/{topic}", {"mappings": {"properties": {"n": {"type": "date"}}}})
    rows = rows_of({"id": pa.int64(), "n": pa.string()}, (1, "2026-01-01"), (2, "two"))
    assert rejected(opensearch, topic, rows, ["id"]) == [(1, "elasticsearch.rejected_document")]


EVENTS = {"name": pa.string(), "at": pa.timestamp("us", "UTC"), "__ts_us": pa.int64(), **OFFSETS}
STREAM = {"data_stream_type": "LOGS", "data_stream_dataset": "shop"}


def test_rows_of_a_data_stream_are_created_once(opensearch, topic):
    template = {"index_patterns": [f"logs-shop-{topic}"], "data_stream": {}}
    opensearch.request("PUT", f"/_index_template/{topic}", template)
    rows = rows_of(EVENTS, ("x", 1_000_000, 2_000_000, 0, 1), ("y", None, 3_000_000, 0, 2))
    for _ in range(2):
        write(opensearch, topic, rows, data_stream_timestamp_field="at", **STREAM)
    found = opensearch.documents(f"logs-shop-{topic}")
    assert {id_: one["@timestamp"] for id_, one in found.items()} == {
        f"{topic}+0+1": "1970-01-01T00:00:01Z",
        f"{topic}+0+2": 3000,
    }


def test_a_data_stream_without_a_template_is_refused_with_what_it_needs(opensearch, topic):
    rows = rows_of(EVENTS, ("x", None, 1, 0, 1))
    wrong = pytest.raises(RemoteError, match="no_template")
    with wrong, sink_task(ElasticsearchSink, keys(opensearch, **STREAM)) as task:
        task.put(rows, txn_id=1, dataset=topic)


@pytest.mark.parametrize("usage", ["INDEX", "ALIAS_INDEX", "DATASTREAM"])
def test_a_resource_that_is_made_elsewhere_is_written_to_and_never_made(opensearch, topic, usage):
    resource = f"{topic}-there"
    more = {
        "external_resource_usage": usage,
        "topic_to_external_resource_mapping": f"{topic}:{resource}, other:x",
    }
    rows = rows_of({"@timestamp": pa.int64(), **OFFSETS}, (5, 0, 1))
    wrong = pytest.raises(RemoteError, match="no_resource")
    with wrong, sink_task(ElasticsearchSink, keys(opensearch, **more)) as task:
        task.put(rows, txn_id=1, dataset=topic)
    if usage == "DATASTREAM":
        template = {"index_patterns": [resource], "data_stream": {}}
        opensearch.request("PUT", f"/_index_template/{topic}", template)
        opensearch.request("PUT", f"/_data_stream/{resource}")
    else:
        alias = {"aliases": {resource: {}}} if usage == "ALIAS_INDEX" else {}
        opensearch.request("PUT", f"/{topic}-own" if alias else f"/{resource}", alias)
    write(opensearch, topic, rows, **more)
    assert opensearch.documents(resource) == {f"{topic}+0+1": {"@timestamp": 5}}
