"""The record of a generation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.offset import manifest as heads
from penstock.offset.manifest import Head

names = st.lists(st.text("abc-0", max_size=5)).map(tuple)


@given(
    st.builds(
        Head,
        st.integers(0),
        st.integers(0),
        st.text("ab"),
        names,
        st.text("ab"),
        names,
        st.booleans(),
    )
)
def test_a_head_comes_back(head):
    assert heads.decode(heads.encode(head)) == head


def test_a_head_of_before_there_were_lines_is_its_floor():
    assert heads.decode(b"7") == Head(floor=7, top=7)


def test_an_epoch_that_was_seen_changes_nothing():
    head = Head(top=9)
    assert heads.raised(head, 9) is head
    assert heads.raised(head, 10).top == 10


def test_a_fence_is_above_every_epoch_that_claimed_and_never_lowered():
    assert heads.fenced(Head(top=9), 5).floor == 9
    assert heads.fenced(Head(floor=20, top=20), 5).floor == 20
    assert heads.fenced(Head(), 5) == Head(floor=5, top=5)


def test_who_comes_takes_the_ground_away_from_a_line_that_is_built():
    building = heads.building(Head(top=5), "new")
    for later in (heads.raised(building, 6), heads.fenced(building, 0)):
        assert later.building == ""
        assert later.dead == ("new",)
        assert later.line == ""


def test_a_flip_leaves_the_line_before_to_be_swept():
    flipped = heads.flipped(heads.building(Head(line="old"), "new"))
    assert (flipped.line, flipped.building, flipped.dead) == ("new", "", ("old",))
    assert flipped.busy
