"""Policies for rows whose columns differ from those of their target."""

import pickle
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.drift_policy import ChangeKind, DriftPolicy, DriftRules
from penstock.model.errors import DataError, SchemaError
from penstock.model.schema_drift import (
    can_hold,
    compare_schemas,
    list_schema_requests,
    make_fit_kernel,
)

TARGET = pa.schema([("id", pa.int32()), ("name", pa.string()), ("gone", pa.int64())])
ROWS = pa.schema([("id", pa.int64()), ("name", pa.int32()), ("new", pa.string())])


def types(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema}


def test_every_difference_has_its_kind():
    found = {change.column: change.kind for change in compare_schemas(TARGET, ROWS)}
    assert found == {
        "id": ChangeKind.WIDEN,
        "name": ChangeKind.CHANGE,
        "gone": ChangeKind.DROP,
        "new": ChangeKind.ADD,
    }


@pytest.mark.parametrize("policy", DriftPolicy)
def test_reserved_columns_of_rows_are_no_columns_of_their_target(policy):
    """A table has no `__op`; without it, the rows of deletes would be written."""
    changes = TARGET.append(pa.field("__op", pa.int8())).append(pa.field("__partition", pa.int32()))
    rules = DriftRules(policy, frozenset(ChangeKind))
    assert list_schema_requests(TARGET, changes, rules, "t") == (changes,)
    assert list_schema_requests(changes, TARGET, rules, "t") == (TARGET,)
    keyed = TARGET.append(pa.field("__key", pa.string()))
    (change,) = compare_schemas(keyed, TARGET.append(pa.field("__key", pa.int64())))
    assert change.kind is ChangeKind.CHANGE


def test_narrower_types_are_not_a_change():
    assert compare_schemas(pa.schema([("id", pa.int64())]), pa.schema([("id", pa.int16())])) == ()


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (DriftPolicy.EVOLVE, [{"id": "int64", "name": "int32", "new": "string"}]),
        (
            DriftPolicy.LENIENT,
            [
                {"id": "int64", "name": "string", "new": "string"},
                {"id": "int32", "name": "string", "new": "string"},
                {"id": "int32", "name": "string"},
            ],
        ),
        (DriftPolicy.IGNORE, [{"id": "int32", "name": "string"}]),
        (
            DriftPolicy.TRY_EVOLVE,
            [
                {"id": "int64", "name": "int32", "new": "string"},
                {"id": "int32", "name": "string", "new": "string"},
                {"id": "int32", "name": "string"},
            ],
        ),
    ],
)
def test_a_policy_requests_its_changes(policy, expected):
    requested = list_schema_requests(TARGET, ROWS, DriftRules(policy), "t")
    assert [types(schema) for schema in requested] == expected


def test_fail_names_every_change():
    with pytest.raises(SchemaError) as caught:
        list_schema_requests(TARGET, ROWS, DriftRules(DriftPolicy.FAIL), "t")
    assert caught.value.code == "schema.changed"
    for name in ("id", "name", "gone", "new"):
        assert f"`{name}`" in str(caught.value)


def test_fail_accepts_rows_that_fit():
    assert list_schema_requests(TARGET, TARGET, DriftRules(DriftPolicy.FAIL), "t") == (TARGET,)


@pytest.mark.parametrize("policy", [DriftPolicy.FAIL, DriftPolicy.EVOLVE, DriftPolicy.LENIENT])
def test_kinds_outside_of_a_policy_are_ignored(policy):
    rules = DriftRules(policy, frozenset(ChangeKind) - {ChangeKind.ADD})
    target = pa.schema([("id", pa.int64())])
    rows = pa.schema([("id", pa.int64()), ("new", pa.string())])
    (requested,) = list_schema_requests(target, rows, rules, "t")
    assert requested.names == ["id"]


def test_rows_are_cast_to_the_columns_of_the_target():
    wanted = pa.schema([("b", pa.int64()), ("a", pa.string())])
    rows = pa.record_batch({"a": pa.array([1, 2]), "b": pa.array(["3", None]), "c": [0, 0]})
    kernel = make_fit_kernel(rows.schema, wanted, "t")
    assert kernel is not None
    again = pickle.loads(pickle.dumps(kernel))
    assert again(rows).to_pylist() == [{"b": 3, "a": "1"}, {"b": None, "a": "2"}]


def test_rows_with_the_columns_of_the_target_stay_unchanged():
    assert make_fit_kernel(TARGET, TARGET, "t") is None


def test_a_value_that_does_not_fit_is_an_error_and_not_truncated():
    kernel = make_fit_kernel(pa.schema([("n", pa.int64())]), pa.schema([("n", pa.int8())]), "t")
    assert kernel is not None
    with pytest.raises(DataError) as caught:
        kernel(pa.record_batch({"n": pa.array([300])}))
    assert caught.value.code == "schema.value_does_not_fit"
    assert "300" not in str(caught.value), "values of rows are not shown"


def test_types_without_a_cast_are_refused_before_there_are_rows():
    with pytest.raises(SchemaError) as caught:
        make_fit_kernel(
            pa.schema([("n", pa.list_(pa.int8()))]), pa.schema([("n", pa.date32())]), "t"
        )
    assert caught.value.code == "schema.cannot_fit"


SAMPLES = {
    pa.int8(): [-128, 127],
    pa.int16(): [-(2**15), 2**15 - 1],
    pa.int32(): [-(2**31), 2**31 - 1],
    pa.int64(): [-(2**63), 2**63 - 1],
    pa.uint8(): [0, 255],
    pa.uint32(): [0, 2**32 - 1],
    pa.uint64(): [0, 2**64 - 1],
    pa.float32(): [1.5, -3.0],
    pa.float64(): [0.1, -1e300],
    pa.decimal128(10, 2): [Decimal("99999999.99"), Decimal("-0.01")],
    pa.decimal128(12, 2): [Decimal("9999999999.99")],
    pa.decimal128(20, 0): [Decimal(10) ** 20 - 1],
    pa.decimal128(12, 4): [Decimal("99999999.9999")],
    pa.string(): ["", "\U0001f600"],
    pa.binary(): [b"\0\xff"],
    pa.timestamp("ms"): [datetime.fromisoformat("2024-01-01")],
    pa.timestamp("us"): [datetime.fromisoformat("2024-01-01T00:00:00.000001")],
    pa.timestamp("us", "UTC"): [datetime(2024, 1, 1, tzinfo=UTC)],
}


@given(st.sampled_from(list(SAMPLES)), st.sampled_from(list(SAMPLES)))
def test_a_type_that_can_hold_another_keeps_its_extremes(wide, narrow):
    if can_hold(wide, narrow):
        column = pa.array(SAMPLES[narrow], narrow)
        assert column.cast(wide).cast(narrow).equals(column)
