"""An offset with those it had before, as one value."""

from __future__ import annotations

import itertools
import struct

from hypothesis import given
from hypothesis import strategies as st

from penstock.offset import history
from penstock.offset.history import MOST_HISTORY, MOST_VERSIONS, Version

bodies = st.none() | st.binary(max_size=400)
versions = st.lists(
    st.builds(Version, st.integers(1, 9), st.integers(1, 10**13), bodies), min_size=1
)


def pushed(made):
    value = None
    for version in made:
        value = history.pushed(value, version)
    return value


@given(versions)
def test_the_newest_and_the_first_are_always_kept_within_the_bounds(made):
    value = pushed(made)
    kept = history.versions(value)
    assert history.newest(value).body == made[-1].body
    assert history.epoch_of(value) == made[-1].epoch
    assert kept[-1] == made[0]
    assert len(kept) <= MOST_VERSIONS
    assert len(value) <= MOST_HISTORY + 1000
    assert [v.time for v in kept] == sorted((v.time for v in kept), reverse=True)


def test_what_is_kept_is_the_further_apart_the_older_it_is():
    kept = history.versions(pushed([Version(1, second * 1000, b"x") for second in range(100_000)]))
    ages = [(99_999_000 - version.time) // 1000 for version in kept]
    assert len(kept) == MOST_VERSIONS
    assert ages[0] == 0
    assert ages[-1] == 99_999
    assert all(later <= 5 * earlier + 5 for earlier, later in itertools.pairwise(ages))


def test_a_time_gets_the_newest_version_that_is_not_later():
    value = pushed([Version(1, 10, b"a"), Version(1, 20, None), Version(2, 30, b"c")])
    assert history.as_of(value, 9) is None
    assert history.as_of(value, 10).body == b"a"
    assert history.as_of(value, 29).body is None
    assert history.as_of(value, 99).body == b"c"


def test_a_clock_that_goes_back_is_taken_to_stand_still():
    value = pushed([Version(1, 50, b"a"), Version(1, 20, b"b")])
    assert [v.time for v in history.versions(value)] == [50, 50]
    assert history.as_of(value, 50).body == b"b"


def test_a_value_of_before_there_was_history_is_read_and_continued():
    old = struct.pack(">Q", 7) + b"offset"
    assert history.newest(old) == Version(7, 0, b"offset")
    assert history.epoch_of(old) == 7
    value = history.pushed(old, Version(9, 100, b"new"))
    assert history.versions(value) == [Version(9, 100, b"new"), Version(7, 0, b"offset")]
