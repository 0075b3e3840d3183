"""Spark reads the SQL of a chain with the intended meaning: quoting, predicates over rows, keys."""

import os

import pyarrow as pa
import pytest

from penstock.model.errors import ConfigError
from penstock.transform.configuration import build_chain
from penstock.transform.sql import literals
from penstock.transform.sql.guard import check_expression

NAMES = [
    "a.b",
    "we`ird",
    "``",
    "a b",
    "it's",
    '"q"',
    "sélect",
    "select",
    "a;b",
    "-- x",
    "😀",
    "\\",
    "$x",
]
TEXTS = [
    "", "'", "''", "\\", "\\\\", "\\'", "\\n", "\n\r\t", "\0", "\x00012", "\\u0041", "%", "\\%",
    "\\_",     '"', "`", "$", "${env:HOME}", "${spark.app.name}", "$${", "\\$",
    "😀", "\u2028\uffff", "é", "\x1a",
    "--", "/*", "*/", ";", "' OR 1=1 --", "\\' OR 1=1 --",
]  # fmt: skip

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, None], pa.int64()),
        "name": ["a", "b", None, None],
        "__op": pa.array([1, 3, None, None], pa.int8()),
        "__key": pa.array([{"k": 1}, {"k": 2}, None, {"k": None}], pa.struct({"k": pa.int32()})),
        "__headers": pa.array(
            [[("h", b"x")], [], None, [("h'", b"")]], pa.map_(pa.string(), pa.binary())
        ),
        "__ts_us": pa.array([0, 1_000_001, None, -1], pa.int64()),
        "__offset": pa.array([b'{"n":1}', b"2", None, b""], pa.binary()),
    }
)


def run(spark, config, table=ROWS, dataset="d"):
    frame = spark.createDataFrame(table)
    for step in build_chain(config).compile(dataset, table.schema).steps:
        if step.where is not None:
            frame = frame.where(step.where)
        if step.select is not None:
            frame = frame.selectExpr(*(f"{text} AS {literals.name(n)}" for n, text in step.select))
    return frame.toArrow()


def one(type_, predicate=None, negate=None, **keys):
    config = {"transforms": "t", "transforms.t.type": type_}
    config.update({f"transforms.t.{key.replace('_', '.')}": value for key, value in keys.items()})
    if predicate is not None:
        config.update({"predicates": "p", "transforms.t.predicate": "p"})
        config.update({f"predicates.p.{key}": value for key, value in predicate.items()})
    if negate is not None:
        config["transforms.t.negate"] = negate
    return config


TOMBSTONE = {"type": "RecordIsTombstone"}


def test_spark_reads_every_quoted_text_unchanged(spark):
    found = spark.range(1).selectExpr(
        *(f"{literals.literal(t)} AS c{i}" for i, t in enumerate(TEXTS))
    )
    assert list(found.toArrow().to_pylist()[0].values()) == TEXTS


def test_spark_reads_every_quoted_name_unchanged(spark):
    table = pa.table({name: [place] for place, name in enumerate(NAMES)})
    found = (
        spark.createDataFrame(table).selectExpr(*(literals.name(name) for name in NAMES)).toArrow()
    )
    assert found.to_pylist() == table.to_pylist()


def test_an_unescaped_text_would_leak_the_environment(spark):
    """Why `${` is escaped and refused: Spark puts the environment there, inside quotes too."""
    spark.conf.set("spark.sql.variable.substitute", "true")
    found = spark.range(1).selectExpr("'${env:HOME}' AS leak").toArrow().to_pylist()
    assert found == [{"leak": os.environ["HOME"]}]


@pytest.mark.parametrize(
    "text", ["1=1) union select", "a = 1; drop table x", "a = 1 -- c", "1=1))"]
)
def test_an_invalid_expression_is_refused_before_spark_sees_it(spark, text):
    with pytest.raises(ConfigError):
        check_expression(text, "p")
    if "--" not in text:
        with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
            spark.range(1).where(text)


@pytest.mark.parametrize(
    "text",
    [
        "exists(select 1)",
        "(\u017felect 1) = 1",
        "(values (1)) = 1",
        "(from range(1)) = 0",
        "reflect('java.lang.Math','abs',-1) = '1'",
        "`reflect`('java.lang.Math','abs',-1) = '1'",
        "identifier('re' || 'flect')('java.lang.Math','abs',-1) = '1'",
        "r'\\' = (select '\\\\') or 'a' = 'b'",
        "\"'\" <> '\"' and exists(select 1)",
        "input_file_name() = ''",
        "current_date = current_date()",
        "length('${env:HOME}') > 0",
    ],
)
def test_an_expression_that_spark_would_run_beyond_the_row_is_refused(spark, text):
    """Spark accepts each of these conditions; only the guard refuses them."""
    assert spark.range(1).where(text).count() in (0, 1)
    with pytest.raises(ConfigError):
        check_expression(text, "p")


def test_rows_that_a_predicate_matches_are_dropped_as_in_kafka(spark):
    config = one("org.apache.kafka.connect.transforms.Filter", TOMBSTONE)
    assert run(spark, config)["id"].to_pylist() == [1, 3]
    assert run(spark, config | {"transforms.t.negate": "true"})["id"].to_pylist() == [2, None]


def test_a_condition_with_a_predicate_applies_only_to_its_rows(spark):
    config = one("Filter", {"type": "HasHeaderKey", "name": "h"}, condition="id > 1")
    assert run(spark, config)["id"].to_pylist() == [2, 3, None]


def test_a_header_is_found_by_its_exact_name(spark):
    config = one("Filter", {"type": "HasHeaderKey", "name": "h'"}, negate="true")
    assert run(spark, config)["__headers"].to_pylist() == [[("h'", b"")]]


def test_without_op_a_tombstone_is_a_row_without_values(spark):
    table = ROWS.drop_columns(["__op"])
    assert run(spark, one("Filter", TOMBSTONE), table)["id"].to_pylist() == [1, 2, 3]


def test_fields_are_inserted_only_into_the_rows_of_a_predicate(spark):
    config = one("InsertField", TOMBSTONE, negate="true", static_field="f", static_value="v")
    assert run(spark, config)["f"].to_pylist() == ["v", None, "v", None]


def test_a_renaming_of_some_rows_leaves_both_columns(spark):
    found = run(spark, one("ReplaceField", TOMBSTONE, renames="name:n", exclude="id"))
    assert found["n"].to_pylist() == [None, "b", None, None]
    assert found["name"].to_pylist() == ["a", None, None, None]
    assert found["id"].to_pylist() == [1, None, 3, None]


def test_the_time_of_a_row_becomes_a_timestamp(spark):
    found = run(spark, one("InsertField", timestamp_field="t"))["t"]
    assert pa.types.is_timestamp(found.type)
    assert found.cast(pa.int64()).to_pylist() == [0, 1_000_001, None, -1]


def test_the_offset_is_inserted_as_text(spark):
    found = run(spark, one("InsertField", offset_field="o"))
    assert found["o"].to_pylist() == ['{"n":1}', "2", None, ""]


def test_metadata_that_rows_do_not_have_is_null(spark):
    table = ROWS.drop_columns(["__ts_us"])
    found = run(spark, one("InsertField", timestamp_field="t?", partition_field="p"), table)
    assert found["t"].to_pylist() == found["p"].to_pylist() == [None] * 4


def test_null_in_a_required_field_fails_and_names_it(spark):
    config = one("InsertField", timestamp_field="t!")
    assert run(spark, config, ROWS.slice(0, 2)).num_rows == 2
    with pytest.raises(Exception, match=r"transforms\.t\.timestamp\.field"):
        run(spark, config)


def test_fields_are_inserted_into_an_existing_key(spark):
    config = one("InsertField$Key", topic_field="a`'b")
    expected = [{"k": 1, "a`'b": "d"}, {"k": 2, "a`'b": "d"}, None, {"k": None, "a`'b": "d"}]
    assert run(spark, config)["__key"].to_pylist() == expected


def test_fields_of_a_key_are_renamed(spark):
    found = run(spark, one("org.apache.kafka.connect.transforms.ReplaceField$Key", renames="k:x"))
    assert found["__key"].to_pylist() == [{"x": 1}, {"x": 2}, None, {"x": None}]
    assert found["id"].to_pylist() == ROWS["id"].to_pylist()


def test_a_projection_may_compute_and_keeps_reserved_columns(spark):
    found = run(spark, one("Project", columns="id + 1 AS next, concat_ws(',', name, 'x') AS `a b`"))
    assert found.schema.names[:2] == ["next", "a b"]
    assert found.schema.names[2:] == [n for n in ROWS.schema.names if n.startswith("__")]
    assert found["next"].to_pylist() == [2, 3, 4, None]
