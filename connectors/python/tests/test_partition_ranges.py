"""Which partitions are in a range."""

from hypothesis import example, given
from hypothesis import strategies as some

from penstock_connector import PartitionRange, divide_range, partition_id
from penstock_values.partition_ranges import OwnPartitions, find_overlap

TEXTS = some.text(max_size=4) | some.sampled_from(["host", '"host":"b', "{", "\\", "é", "a", "m"])
KEYS = some.dictionaries(
    TEXTS, TEXTS | some.integers() | some.lists(TEXTS, max_size=2) | some.binary(max_size=2),
    max_size=3,
)  # fmt: skip


@given(KEYS, some.sampled_from(["host", 'ho"st', "é", "{"]), TEXTS, TEXTS)
@example({"a": '"host":"b', "host": "z"}, "host", "b", "c")
@example({"a": ["host", "b"], "host": "z"}, "host", "b", "c")
def test_an_id_is_where_its_key_is(key, field, start, end):
    """The id is searched, not parsed, where that is the same."""
    one = PartitionRange(field, start, end)
    assert one.has_id(partition_id(key)) == one.has_key(key)


@given(some.lists(TEXTS, max_size=5), some.text(max_size=4))
def test_divided_ranges_hold_every_text_once(bounds, text):
    ranges = divide_range("host", bounds)
    assert sum(one.has_key({"host": text}) for one in ranges) == 1
    assert find_overlap(ranges) is None


def test_a_task_that_finds_all_may_have_any():
    assert '{"x":1}' in OwnPartitions((), None)
    assert '{"x":1}' in OwnPartitions({'{"x":1}'}, ())
    assert '{"x":1}' not in OwnPartitions((), ())
