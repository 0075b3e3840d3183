"""How schemas are announced to a write end: what it is asked, and what becomes of the rows."""

import asyncio

import pyarrow as pa
import pytest

from penstock.model.errors import SchemaError
from penstock.model.schema_drift import DriftRules, Policy
from penstock.model.step import ROW
from penstock.worker.task.schema_drift import Drift

ONE = pa.schema([("id", pa.int64())])
TWO = pa.schema([("id", pa.int64()), ("note", pa.string())])


class Place:
    """A write end with columns; `rigid` refuses every change, `silent` cannot tell what it has."""

    def __init__(self, has: pa.Schema | None, *, rigid: bool = False, silent: bool = False) -> None:
        self.has, self.rigid, self.silent = has, rigid, silent
        self.asked: list[list[str]] = []

    async def columns(self, dataset: str) -> pa.Schema | None:
        return None if self.silent else self.has

    async def apply(self, schema: pa.Schema) -> None:
        self.asked.append(schema.names)
        if self.rigid and self.has is not None and not set(schema.names) <= set(self.has.names):
            raise SchemaError("plugin.schema_refused", "no")
        self.has = schema


def announce(place: Place, policy: Policy, *schemas: pa.Schema):
    drift = Drift(DriftRules(policy), place)
    steps = [asyncio.run(drift.announce("t", schema, place.apply)) for schema in schemas]
    return steps[-1]


def written(step, rows: pa.RecordBatch) -> list[dict]:
    return (rows if step is None else step.kernel(rows)).to_pylist()


ROWS = pa.record_batch({"id": [1], "note": ["x"]})


@pytest.mark.parametrize("policy", Policy)
def test_a_place_that_is_not_there_is_made(policy):
    place = Place(None)
    assert announce(place, policy, TWO) is None
    assert place.asked == [["id", "note"]]


def test_evolve_asks_for_the_new_column():
    place = Place(ONE)
    assert announce(place, Policy.EVOLVE, TWO) is None
    assert place.asked == [["id", "note"]]


def test_evolve_fails_where_the_place_refuses():
    with pytest.raises(SchemaError, match="schema_refused"):
        announce(Place(ONE, rigid=True), Policy.EVOLVE, TWO)


def test_try_evolve_goes_on_with_what_is_there():
    place = Place(ONE, rigid=True)
    step = announce(place, Policy.TRY_EVOLVE, TWO)
    assert place.asked == [["id", "note"], ["id"]], "only so often as it differs"
    assert written(step, ROWS) == [{"id": 1}]


@pytest.mark.parametrize("policy", [Policy.TRY_EVOLVE, Policy.LENIENT])
def test_a_type_that_the_place_does_not_widen_costs_no_new_column(policy):
    class Topic(Place):
        async def apply(self, schema):
            if schema.field("id").type != pa.int32():
                raise SchemaError("topic.schema_incompatible", "no")
            await super().apply(schema)

    place = Topic(pa.schema([("id", pa.int32())]))
    assert written(announce(place, policy, TWO), ROWS) == [{"id": 1, "note": "x"}]


def test_ignore_never_asks():
    place = Place(ONE)
    assert written(announce(place, Policy.IGNORE, TWO), ROWS) == [{"id": 1}]
    assert place.asked == [["id"]]


def test_fail_stops_at_a_table_that_was_there_before_the_task():
    with pytest.raises(SchemaError, match=r"schema\.changed"):
        announce(Place(ONE), Policy.FAIL, TWO)


@pytest.mark.parametrize("policy", [Policy.FAIL, Policy.IGNORE])
def test_an_end_that_cannot_tell_is_compared_with_what_it_took_before(policy):
    place = Place(None, silent=True)
    if policy is Policy.FAIL:
        with pytest.raises(SchemaError, match=r"schema\.changed"):
            announce(place, policy, ONE, TWO)
    else:
        assert written(announce(place, policy, ONE, TWO), ROWS) == [{"id": 1}]


def test_a_column_that_came_back_is_no_change():
    place = Place(None, silent=True)
    assert announce(place, Policy.LENIENT, TWO, ONE, TWO) is None


def test_rows_of_a_refused_change_are_set_apart_each_with_the_reason():
    place = Place(ONE)
    step = announce(place, Policy.DEAD_LETTER, TWO)
    assert step.sets_apart
    assert place.asked == [["id"]], "the place keeps its columns"
    numbered = ROWS.append_column(ROW, pa.array([7]))
    left, failed = step.kernel.attempt(numbered)
    assert (left.num_rows, left.schema.names) == (0, ["id", ROW])
    ((row, reason),) = failed
    assert (row, reason.code) == (7, "schema.changed")
    assert "`note` string is new" in reason.message
    assert written(step, ROWS) == []


def test_rows_as_the_place_has_them_go_on_beside_refused_ones():
    place = Place(ONE)
    assert announce(place, Policy.DEAD_LETTER, TWO, ONE) is None
