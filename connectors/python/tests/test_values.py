"""Keys and offsets."""

from datetime import UTC, date, datetime
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_connector import Partition
from penstock_connector import _values as values
from penstock_values.identity import canonical_json, is_partition_id, partition_id, partition_key
from penstock_values.messages import offset_from_proto, offset_to_proto

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.dates()
    | st.datetimes(timezones=st.just(UTC))
)
_values = st.recursive(
    _scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(), v, max_size=3)
)
_fields = st.dictionaries(st.text(min_size=1), _values, max_size=4)


@settings(deadline=None)
@given(_fields)
def test_an_id_is_read_as_its_key(key):
    assert partition_key(partition_id(key)) == key
    assert is_partition_id(partition_id(key))


@settings(deadline=None)
@given(_fields)
def test_offsets_survive_the_wire(offset):
    assert offset_from_proto(offset_to_proto(offset)) == offset


def test_large_integers_and_decimals_are_exact():
    offset = {"lsn": 2**53 + 1, "price": Decimal("1.20"), "day": date(2026, 1, 2)}
    assert offset_from_proto(offset_to_proto(offset)) == offset


def test_opaque_offsets_stay_bytes():
    message = offset_to_proto({"$opaque": b"\x00\x01"})
    assert message.opaque == b"\x00\x01"
    assert offset_from_proto(message) == {"$opaque": b"\x00\x01"}


def test_a_partition_survives_the_wire():
    partition = Partition(
        {"b": 1, "a": datetime(2026, 1, 1, tzinfo=UTC)}, {"n": 1}, b"p", ("d",), 2.0, bounded=True
    )
    assert values.partition_from_proto(values.partition_to_proto(partition)) == partition


def test_a_partition_named_by_id_alone_gets_its_key():
    message = values.partition_to_proto(Partition({"a": b"x"}))
    message.key.clear()
    assert values.partition_from_proto(message).key == {"a": b"x"}


def test_canonical_json_has_sorted_keys_and_no_spaces():
    assert canonical_json({"b": 1, "a": "ü"}) == '{"a":"ü","b":1}'
