"""Rows with names of their own, and the transforms and predicates behind them."""

import pickle

import pyarrow as pa
import pytest

from penstock.model.columns import TOPIC
from penstock.model.errors import ConfigError
from penstock.model.step import ROW
from penstock.spark.rejected_rows import RejectedRows, apply_kernels
from penstock.transform.configuration import build_chain

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("__ts_us", pa.int64())])
DAY_US = 86_400_000_000
BY_KIND = {"type": "ExtractTopic", "field": "kind", "skip.missing.or.null": "true"}


def chain(**links):
    config = {"transforms": ",".join(links)}
    for name, keys in links.items():
        config |= {f"transforms.{name}.{key}": value for key, value in keys.items()}
    return config


def names(config, rows, dataset="shop"):
    """The dataset, the name of each row, and the codes of the rejected ones."""
    compiled = build_chain(config).compile(dataset, SCHEMA)
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    batch = batch.append_column(ROW, pa.array(range(len(rows)), pa.int64()))
    rejected = RejectedRows()
    kernels = pickle.loads(pickle.dumps([step.kernel for step in compiled.steps]))
    after = apply_kernels(batch, kernels, rejected)
    found = after.column(TOPIC).to_pylist() if TOPIC in after.schema.names else []
    return compiled.dataset, found, {row: reason.code for row, reason in rejected.rows}


ROWS = [
    {"id": 1, "kind": "red", "__ts_us": 0},
    {"id": 2, "kind": None, "__ts_us": DAY_US},
    {"id": 3, "kind": "blue", "__ts_us": DAY_US},
]


def test_a_time_is_appended_to_the_name_that_a_row_has():
    config = chain(k=BY_KIND, t={"type": "TimestampRouter"})
    assert names(config, ROWS)[1] == ["red-19700101", "shop-19700102", "blue-19700102"]


def test_a_router_renames_the_dataset_and_the_names_of_rows():
    router = {"type": "RegexRouter", "regex": "(r.*|shop)", "replacement": "x-$1"}
    dataset, found, _ = names(chain(k=BY_KIND, r=router), ROWS)
    assert (dataset, found) == ("x-shop", ["x-red", None, "blue"])


def test_a_router_that_leaves_no_name_rejects_the_row():
    router = {"type": "RegexRouter", "regex": "red()", "replacement": "$1"}
    dataset, found, rejected = names(chain(k=BY_KIND, r=router), ROWS)
    assert (dataset, found, rejected) == ("shop", [None, "blue"], {0: "transform.empty_dataset"})


def test_a_field_gets_the_name_of_its_row():
    insert = {"type": "InsertField", "topic.field": "at"}
    compiled = build_chain(chain(k=BY_KIND, i=insert)).compile("shop", SCHEMA)
    batch = pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA)
    for step in compiled.steps:
        batch = step.kernel(batch)
    assert batch.column("at").to_pylist() == ["red", "shop", "blue"]


def test_a_predicate_over_names_decides_for_each_row():
    config = chain(k=BY_KIND, f={"type": "Filter", "predicate": "p", "negate": "true"})
    config |= {
        "predicates": "p",
        "predicates.p.type": "TopicNameMatches",
        "predicates.p.pattern": "r|re?d",
    }
    *_, step = build_chain(config).compile("shop", SCHEMA).steps
    assert r"(coalesce(`__topic`, 'shop') RLIKE '^(?:r|re?d)\\z')" in step.where


def test_a_row_cannot_be_routed_for_some_rows_only():
    config = chain(t={"type": "TimestampRouter", "predicate": "p"})
    config |= {"predicates": "p", "predicates.p.type": "RecordIsTombstone"}
    with pytest.raises(ConfigError, match=r"transform\.row_predicate"):
        build_chain(config).compile("shop", SCHEMA)


def test_the_reserved_column_stays_with_columns_that_change():
    """Projections keep it, and it stays behind the data."""
    project = {"type": "Project", "columns": "upper(kind) AS kind"}
    compiled = build_chain(chain(k=BY_KIND, p=project)).compile("shop", SCHEMA)
    assert [name for name, _ in compiled.steps[-1].select] == ["kind", "__ts_us", TOPIC]
