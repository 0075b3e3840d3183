"""Rows for `elasticsearch-sink` in tests, and how they are written."""

import pyarrow as pa

from penstock_connector.testing import sink_task
from penstock_search import ElasticsearchSink

OFFSETS = {"__partition": pa.int32(), "__offset": pa.int64()}
MESSAGES = {"__key": pa.string(), "name": pa.string(), **OFFSETS}


def keys(server, **more):
    """A configuration for a server, on a machine that does other things, too."""
    base = {"connection.url": server.url, "read.timeout.ms": "30s", "connection.timeout.ms": "10s"}
    return base | {name.replace("_", "."): str(value) for name, value in more.items()}


def rows_of(columns, *rows):
    """A batch with these types, of tuples."""
    names = list(columns)
    return pa.RecordBatch.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=pa.schema(columns.items())
    )


def write(server, topic, rows, key_columns=(), **more):
    """Write rows in a task of their own, and return its metrics."""
    with sink_task(ElasticsearchSink, keys(server, **more)) as task:
        task.write(rows, dataset=topic, key_columns=key_columns)
        return task.metrics


def rejected(server, topic, rows, key_columns=(), **more):
    """Write rows of which some are bad. The bad ones: their numbers, and codes."""
    with sink_task(ElasticsearchSink, keys(server, **more), tolerates_failed_rows=True) as task:
        results = task.put(rows, txn_id=1, dataset=topic, key_columns=key_columns)
        failed = [one for result in results for one in result.failed]
        task.prepare(1, [(0, 0, rows.num_rows - len(failed))])
        task.commit(1)
        at_prepare = [(one.row, one.reason.code) for one in task.left_out]
    return [(one.row, one.reason.code) for one in failed] + at_prepare
