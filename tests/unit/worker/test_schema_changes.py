"""How schemas are announced to a sink: which columns are requested, and what happens to the
rows.
"""

import asyncio

import pyarrow as pa
import pytest

from penstock.model.drift_policy import DriftPolicy, DriftRules
from penstock.model.errors import SchemaError
from penstock.model.step import ROW
from penstock.worker.task.drift_handler import DriftHandler

ONE = pa.schema([("id", pa.int64())])
TWO = pa.schema([("id", pa.int64()), ("note", pa.string())])


class Place:
    """A sink with columns; `rigid` refuses every change, `silent` does not know its columns."""

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


def announce(place: Place, policy: DriftPolicy, *schemas: pa.Schema):
    drift = DriftHandler(DriftRules(policy), place)
    steps = [asyncio.run(drift.announce("t", schema, place.apply)) for schema in schemas]
    return steps[-1]


def written(step, rows: pa.RecordBatch) -> list[dict]:
    return (rows if step is None else step.kernel(rows)).to_pylist()


ROWS = pa.record_batch({"id": [1], "note": ["x"]})


@pytest.mark.parametrize("policy", DriftPolicy)
def test_a_missing_table_is_created(policy):
    place = Place(None)
    assert announce(place, policy, TWO) is None
    assert place.asked == [["id", "note"]]


def test_evolve_requests_the_new_column():
    place = Place(ONE)
    assert announce(place, DriftPolicy.EVOLVE, TWO) is None
    assert place.asked == [["id", "note"]]


def test_evolve_fails_where_the_sink_refuses():
    with pytest.raises(SchemaError, match="schema_refused"):
        announce(Place(ONE, rigid=True), DriftPolicy.EVOLVE, TWO)


def test_try_evolve_continues_with_the_present_columns():
    place = Place(ONE, rigid=True)
    step = announce(place, DriftPolicy.TRY_EVOLVE, TWO)
    assert place.asked == [["id", "note"], ["id"]], "only so often as it differs"
    assert written(step, ROWS) == [{"id": 1}]


@pytest.mark.parametrize("policy", [DriftPolicy.TRY_EVOLVE, DriftPolicy.LENIENT])
def test_a_refused_wider_type_does_not_lose_a_new_column(policy):
    class Topic(Place):
        async def apply(self, schema):
            if schema.field("id").type != pa.int32():
                raise SchemaError("topic.schema_incompatible", "no")
            await super().apply(schema)

    place = Topic(pa.schema([("id", pa.int32())]))
    assert written(announce(place, policy, TWO), ROWS) == [{"id": 1, "note": "x"}]


def test_ignore_requests_no_change():
    place = Place(ONE)
    assert written(announce(place, DriftPolicy.IGNORE, TWO), ROWS) == [{"id": 1}]
    assert place.asked == [["id"]]


def test_fail_stops_at_a_table_that_existed_before_the_task():
    with pytest.raises(SchemaError, match=r"schema\.changed"):
        announce(Place(ONE), DriftPolicy.FAIL, TWO)


@pytest.mark.parametrize("policy", [DriftPolicy.FAIL, DriftPolicy.IGNORE])
def test_a_sink_without_known_columns_is_compared_with_the_schema_before(policy):
    place = Place(None, silent=True)
    if policy is DriftPolicy.FAIL:
        with pytest.raises(SchemaError, match=r"schema\.changed"):
            announce(place, policy, ONE, TWO)
    else:
        assert written(announce(place, policy, ONE, TWO), ROWS) == [{"id": 1}]


def test_a_column_that_comes_back_is_not_a_change():
    place = Place(None, silent=True)
    assert announce(place, DriftPolicy.LENIENT, TWO, ONE, TWO) is None


def test_rows_of_a_refused_change_are_rejected_each_with_the_reason():
    place = Place(ONE)
    step = announce(place, DriftPolicy.DEAD_LETTER, TWO)
    assert step.can_reject_rows
    assert place.asked == [["id"]], "the place keeps its columns"
    numbered = ROWS.append_column(ROW, pa.array([7]))
    left, failed = step.kernel.split_rejected(numbered)
    assert (left.num_rows, left.schema.names) == (0, ["id", ROW])
    ((row, reason),) = failed
    assert (row, reason.code) == (7, "schema.changed")
    assert "`note` string is new" in reason.message
    assert written(step, ROWS) == []


def test_rows_without_the_change_continue_beside_rejected_ones():
    place = Place(ONE)
    assert announce(place, DriftPolicy.DEAD_LETTER, TWO, ONE) is None
