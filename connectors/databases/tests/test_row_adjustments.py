"""Debezium's keys that change rows on their way out."""

from decimal import Decimal

import pyarrow as pa
import pytest

from penstock_connector import Batch, Op
from penstock_databases.cdc.row_adjustments import RowAdjustments
from penstock_databases.cdc.selection import compiled_list

OPS = [Op.SNAPSHOT, Op.CREATE, Op.UPDATE, Op.DELETE, Op.UPSERT]
FIELDS = {
    "id": pa.int64(),
    "price": pa.decimal128(10, 2),
    "photo": pa.binary(),
}
BEFORE = pa.struct([pa.field(name, kind) for name, kind in FIELDS.items()])
SCHEMA = pa.schema(
    [
        *(pa.field(name, kind, metadata={"logical": name}) for name, kind in FIELDS.items()),
        pa.field("__before", BEFORE),
        pa.field("__op", pa.int8()),
    ]
)
ROW = {"id": 1, "price": Decimal("1.50"), "photo": b"\xff\xfe"}


def batch(ops=OPS, dataset="p.shop.items"):
    rows = [
        {**ROW, "id": n, "__before": ROW if op in {Op.UPDATE, Op.DELETE} else None, "__op": int(op)}
        for n, op in enumerate(ops)
    ]
    return Batch(
        pa.RecordBatch.from_pylist(rows, schema=SCHEMA),
        dataset=dataset,
        key_columns=("id",),
        offset={"at": 1},
    )


def adjusted(rules, **options):
    return RowAdjustments("p", **rules).apply(batch(**options))


def ops(found):
    return [Op(value) for value in found.rows.column("__op").to_pylist()]


def test_without_rules_a_batch_stays_the_same_object():
    given = batch()
    assert RowAdjustments("p").apply(given) is given


@pytest.mark.parametrize(
    ("skipped", "left"),
    [
        (["none"], OPS),
        (["c"], [Op.SNAPSHOT, Op.UPDATE, Op.DELETE, Op.UPSERT]),
        (["d"], [Op.SNAPSHOT, Op.CREATE, Op.UPDATE, Op.UPSERT]),
        (["c", "u"], [Op.SNAPSHOT, Op.DELETE]),
        (["t"], OPS),
    ],
)
def test_operations_are_left_out(skipped, left):
    assert ops(adjusted({"skipped": skipped})) == left


def test_a_batch_of_which_nothing_is_left_keeps_its_offset():
    found = adjusted({"skipped": ["t"]}, ops=[Op.TRUNCATE])
    assert found.rows.num_rows == 0
    assert found.offset == {"at": 1}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"excluded": compiled_list("k", [r"shop\.items\.pho.*"])}, {"id", "price"}),
        ({"included": compiled_list("k", [r"shop\.items\.price"])}, {"id", "price"}),
        ({"included": compiled_list("k", [r"shop\.other\..*"])}, {"id"}),
        ({"excluded": compiled_list("k", [r".*\.id", r".*\.price"])}, {"id", "photo"}),
    ],
)
def test_columns_are_left_out_also_of_the_row_before_and_keys_never(given, names):
    rows = adjusted(given).rows
    assert set(rows.schema.names) == {*names, "__before", "__op"}
    assert {field.name for field in rows.schema.field("__before").type} == names
    assert rows.column("__before").null_count == 3
    assert rows.schema.field("id").metadata == SCHEMA.field("id").metadata


def test_a_column_that_begins_with_two_underscores_is_one_like_others():
    given = batch()
    names = ["__photo" if name == "photo" else name for name in given.rows.schema.names]
    given.rows = given.rows.rename_columns(names)
    rules = {"excluded": compiled_list("k", [r".*\.__photo", r".*\.__op"])}
    left = RowAdjustments("p", **rules).apply(given).rows.schema.names
    assert "__photo" not in left
    assert "__op" in left


@pytest.mark.parametrize(("mode", "value"), [("string", "1.50"), ("double", 1.5)])
def test_decimals_have_the_form_that_is_asked_for(mode, value):
    rows = adjusted({"decimals": mode}).rows
    assert rows.column("price").to_pylist() == [value] * 5
    assert rows.column("__before")[3].as_py()["price"] == value
    assert not rows.schema.field("price").metadata, "it said what the decimal was"


@pytest.mark.parametrize(
    ("mode", "value"), [("base64", "//4="), ("base64-url-safe", "__4="), ("hex", "fffe")]
)
def test_bytes_have_the_form_that_is_asked_for(mode, value):
    rows = adjusted({"binaries": mode}).rows
    assert rows.column("photo").to_pylist() == [value] * 5
    assert rows.column("__before")[2].as_py()["photo"] == value


def test_items_of_arrays_have_the_form_that_is_asked_for():
    prices = [[Decimal("9.00")], None, [Decimal("1.50"), None], []]
    photos = [[b"x"], [b"\xff"], None, [b"\xfe", b""]]
    rows = pa.record_batch(
        {
            "prices": pa.array(prices, pa.list_(pa.decimal128(10, 2))),
            "photos": pa.array(photos, pa.list_(pa.binary())),
            "tags": pa.array([["a"]] * 4),
            "__op": pa.array([int(Op.CREATE)] * 4, pa.int8()),
        }
    ).slice(1)
    given = Batch(rows, dataset="shop.items")
    found = RowAdjustments(decimals="string", binaries="hex").apply(given).rows
    assert found.column("prices").to_pylist() == [None, ["1.50", None], []]
    assert found.column("photos").to_pylist() == [["ff"], None, ["fe", ""]]
    assert found.column("tags").to_pylist() == [["a"]] * 3


def test_rows_about_tables_are_left_alone():
    given = batch(dataset="p")
    assert RowAdjustments("p", skipped=["c"], binaries="hex").apply(given) is given
    bare = Batch(pa.record_batch({"ddl": ["x"]}), dataset="p.shop.items")
    assert RowAdjustments("p", skipped=["c"]).apply(bare) is bare
