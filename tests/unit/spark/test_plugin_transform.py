"""Transforms of plugins, called by kernels: what goes on, what is refused, who is left in time."""

import pickle
import threading
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.model.errors import DataError, InternalError, RetriableError
from penstock.model.step import ROW, RemoteStep, RemoteTransform, Step
from penstock.spark.connector_io import plugin_transform
from penstock.spark.connector_io.plugin_transform import fit_transform
from penstock.spark.plan import split_kernel_prefix
from penstock_connector import DataError as PluginDataError
from penstock_connector import Transform, Transformed
from penstock_connector.testing import Testbed

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("__op", pa.int8())])


class Upper(Transform):
    """Writes names large, and counts their letters; forgets what is reserved."""

    name = "upper"

    def schema(self, schema):
        return pa.schema([("name", pa.large_string()), ("letters", pa.uint8())])

    def apply(self, rows):
        name = pc.utf8_upper(rows["name"]).cast(pa.large_string())
        letters = pc.utf8_length(rows["name"]).cast(pa.uint8())
        return pa.RecordBatch.from_arrays([name, letters], schema=self.schema(rows.schema))


class Even(Transform):
    """Keeps even numbers; refuses 13."""

    name = "even"

    def apply(self, rows):
        numbers = rows["id"].to_pylist()
        kept = [at for at, n in enumerate(numbers) if n % 2 == 0]
        failed = [(at, PluginDataError("even.unlucky", "it is 13")) for at, n in enumerate(numbers)
                  if n == 13]  # fmt: skip
        bad = {at for at, _ in failed}
        filtered = [at for at, n in enumerate(numbers) if n % 2 and at not in bad]
        return Transformed(rows.take(pa.array(kept, pa.int32())), None, filtered, failed)


class Backwards(Transform):
    """Gives rows in another order."""

    name = "backwards"

    def apply(self, rows):
        order = list(reversed(range(rows.num_rows)))
        return Transformed(rows.take(pa.array(order)), order)


class Hang(Transform):
    """Never comes back by itself."""

    name = "hang"
    ending = threading.Event()

    def apply(self, rows):
        self.ending.wait(20)
        return rows


class Wide(Transform):
    """Makes a row as large as several messages."""

    name = "wide"

    def schema(self, schema):
        return pa.schema([("text", pa.string())])

    def apply(self, rows):
        return pa.record_batch({"text": ["x" * (3 << 20)] * rows.num_rows})


@pytest.fixture(scope="module")
def bed():
    with Testbed(Upper, Even, Backwards, Hang, Wide) as served:
        yield served
        Hang.ending.set()


@pytest.fixture
def remote(bed):
    def make(name, **more):
        made = RemoteTransform(name, (), "transforms.t", "c", bed.address, "a-test", 20.0)
        return replace(made, **more)

    return make


def rows(count, schema=SCHEMA):
    columns = {"id": range(count), "name": [f"n{n}" for n in range(count)], "__op": [1] * count}
    return pa.RecordBatch.from_pydict({name: list(columns[name]) for name in schema.names}, schema)


def test_rows_come_back_in_the_engines_types_and_what_is_reserved_goes_on(remote):
    kernel = pickle.loads(pickle.dumps(fit_transform(remote("upper"), SCHEMA)))
    made = kernel(rows(3))
    assert made.schema == pa.schema(
        [("name", pa.string()), ("letters", pa.int16()), ("__op", pa.int8())]
    )
    assert made.to_pylist()[2] == {"name": "N2", "letters": 2, "__op": 1}
    assert kernel(rows(0)).schema == made.schema


def test_rows_that_go_away_take_what_is_reserved_with_them(remote):
    given = rows(5).set_column(2, "__op", pa.array([0, 1, 2, 3, 4], pa.int8()))
    made = fit_transform(remote("even"), SCHEMA)(given)
    assert [(r["id"], r["__op"]) for r in made.to_pylist()] == [(0, 0), (2, 2), (4, 4)]


def test_large_batches_go_in_parts_and_come_back_whole(remote, monkeypatch):
    monkeypatch.setattr(plugin_transform, "MAX_ROW_BYTES", 2000)
    small = list(range(0, 5000, 2))
    even = fit_transform(remote("even"), SCHEMA)
    given = rows(5000).filter(pc.not_equal(rows(5000)["id"], 13))
    assert even(given)["id"].to_pylist() == small
    kernel = fit_transform(remote("wide"), SCHEMA)
    assert kernel(rows(30)).num_rows == 30


def test_a_row_that_fails_is_told_with_its_place(remote):
    numbered = rows(16).append_column(ROW, pa.array(range(100, 116), pa.int64()))
    left, ((row, reason),) = fit_transform(remote("even"), SCHEMA).split_rejected(numbered)
    assert left[ROW].to_pylist() == list(range(100, 116, 2))
    assert (row, reason.code) == (113, "even.unlucky")
    assert reason.message.startswith("transforms.t: ")
    with pytest.raises(DataError, match=r"even\.unlucky"):
        fit_transform(remote("even"), SCHEMA)(rows(14))


def test_another_order_is_refused(remote):
    with pytest.raises(InternalError) as caught:
        fit_transform(remote("backwards"), SCHEMA)(rows(3))
    assert caught.value.code == "plugin.protocol.transform_order"


def test_a_plugin_that_hangs_is_left_in_time_and_its_stage_told(remote):
    with pytest.raises(RetriableError) as caught:
        fit_transform(remote("hang", stall_timeout_s=0.2), SCHEMA)(rows(1))
    assert caught.value.code == "deadline.exceeded"
    assert "plugin.transform (transforms.t)" in str(caught.value)


def test_a_plugin_that_is_gone_is_a_retriable_error(remote, tmp_path):
    with pytest.raises(RetriableError) as caught:
        fit_transform(remote("even", address=f"unix:{tmp_path}/none"), SCHEMA)
    assert "transforms.t" in str(caught.value)


def test_a_plugin_that_says_other_columns_later_is_refused(remote):
    kernel = fit_transform(remote("upper"), SCHEMA)
    liar = replace(
        kernel, plugin_schema=pa.schema([("name", pa.string()), ("letters", pa.uint8())])
    )
    with pytest.raises(InternalError) as caught:
        liar(rows(1))
    assert caught.value.code == "plugin.protocol.schema"


def test_steps_behind_a_plugin_are_fitted_to_what_comes_out_of_it(remote):
    seen = []

    def rest(schema):
        seen.append(schema.names)
        return (Step(kernel=lambda batch: batch.select(["letters"])),)

    step = RemoteStep(remote=remote("upper"), rest=rest)
    head = split_kernel_prefix([step], SCHEMA)
    assert seen == [["name", "letters", "__op"]]
    assert head.schema.names == ["letters"]
    assert len(head.kernels) == 2
    assert not head.rest
    assert split_kernel_prefix([step, Step(where="true")], SCHEMA).rest == (Step(where="true"),)


def test_secrets_of_a_plugin_are_not_printed(remote):
    assert "hush" not in repr(remote("upper", config=(("token", "hush"),), credential="hush"))
