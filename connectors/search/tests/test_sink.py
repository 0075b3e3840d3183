"""Rows as documents of a real Elasticsearch: which document a row is, and what stays of it."""

import pyarrow as pa

from penstock_connector import CommitMode
from penstock_connector.testing import sink_task
from penstock_search import ElasticsearchSink

OFFSETS = {"__partition": pa.int32(), "__offset": pa.int64()}


def keys(server, **more):
    base = {"connection.url": server.url, "read.timeout.ms": "30s", "connection.timeout.ms": "10s"}
    return base | {name.replace("_", "."): str(value) for name, value in more.items()}


def rows_of(columns, *rows):
    """A batch with these types, of tuples."""
    names = list(columns)
    return pa.RecordBatch.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=pa.schema(columns.items())
    )


def write(server, topic, rows, key_columns=(), **more):
    with sink_task(ElasticsearchSink, keys(server, **more)) as task:
        assert task.opened.commit_mode == CommitMode.IDEMPOTENT
        task.write(rows, dataset=topic, key_columns=key_columns)


MESSAGES = {"__key": pa.string(), "name": pa.string(), **OFFSETS}


def test_a_row_is_the_document_of_its_key(elasticsearch, topic):
    rows = rows_of(MESSAGES, ("a", "Ann", 0, 1), ("b", "Bob", 0, 2), ("a", "Anna", 0, 3))
    write(elasticsearch, topic, rows)
    assert elasticsearch.documents(topic) == {"a": {"name": "Anna"}, "b": {"name": "Bob"}}
