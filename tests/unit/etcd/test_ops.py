"""Operations fit into a transaction, or it is said that they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.etcd.v3 import etcd_pb2 as pb
from penstock.etcd import operations


def accepted(conditions, then, most):
    """etcd's own rule (checkTxnRequest), on a transaction and those inside it."""
    size = max(conditions, len(then))
    if size > most:
        return False
    inner = (op.request_txn for op in then if op.HasField("request_txn"))
    return all(accepted(len(t.compare), list(t.success), most - size) for t in inner)


def flat(then):
    for op in then:
        yield from flat(op.request_txn.success) if op.HasField("request_txn") else [op]


@given(count=st.integers(0, 4500), conditions=st.integers(0, 128))
def test_what_is_packed_is_accepted_whole_and_in_order(count, conditions):
    wanted = [operations.put(f"{i}", b"") for i in range(count)]
    packed = operations.pack(wanted, conditions, 128)
    if packed is None:
        room = max(n * (128 - max(n, conditions)) for n in range(1, 128))
        assert count > max(room, 128)
    else:
        assert accepted(conditions, packed, 128)
        assert list(flat(packed)) == wanted


def test_4096_operations_fit_and_no_more():
    assert operations.pack([operations.remove(f"{i}") for i in range(4096)], 1, 128) is not None
    assert operations.pack([operations.remove(f"{i}") for i in range(4097)], 1, 128) is None


@pytest.mark.parametrize("prefix", ["p/", "ü", "", "\U0010ffff"])
def test_the_end_of_a_prefix_is_after_all_that_start_with_it(prefix):
    assert (prefix + "\U0010ffff" * 3).encode() < operations.prefix_end(prefix)


def test_a_condition_is_about_equality():
    """etcd's field 1 says how to compare; 0, which is never sent, is EQUAL."""
    assert (
        pb.Compare.FromString(
            operations.create_revision_is("k", 7).SerializeToString()
        ).create_revision
        == 7
    )
