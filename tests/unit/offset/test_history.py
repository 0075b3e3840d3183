"""An offset with its earlier versions, as one value."""

from __future__ import annotations

import itertools
import struct

from hypothesis import given
from hypothesis import strategies as st

from penstock.offset import history
from penstock.offset.history import MAX_HISTORY_BYTES, MAX_VERSIONS, OffsetVersion

bodies = st.none() | st.binary(max_size=400)
versions = st.lists(
    st.builds(OffsetVersion, st.integers(1, 9), st.integers(1, 10**13), bodies), min_size=1
)


def pushed(made):
    value = None
    for version in made:
        value = history.add_version(value, version)
    return value


@given(versions)
def test_the_newest_and_the_first_are_always_kept_within_the_bounds(made):
    value = pushed(made)
    kept = history.decode_versions(value)
    assert history.newest_version(value).body == made[-1].body
    assert history.newest_epoch(value) == made[-1].epoch
    assert kept[-1] == made[0]
    assert len(kept) <= MAX_VERSIONS
    assert len(value) <= MAX_HISTORY_BYTES + 1000
    assert [v.time_ms for v in kept] == sorted((v.time_ms for v in kept), reverse=True)


def test_what_is_kept_is_the_further_apart_the_older_it_is():
    kept = history.decode_versions(
        pushed([OffsetVersion(1, second * 1000, b"x") for second in range(100_000)])
    )
    ages = [(99_999_000 - version.time_ms) // 1000 for version in kept]
    assert len(kept) == MAX_VERSIONS
    assert ages[0] == 0
    assert ages[-1] == 99_999
    assert all(later <= 5 * earlier + 5 for earlier, later in itertools.pairwise(ages))


def test_a_time_gets_the_newest_version_that_is_not_later():
    value = pushed(
        [OffsetVersion(1, 10, b"a"), OffsetVersion(1, 20, None), OffsetVersion(2, 30, b"c")]
    )
    assert history.version_at(value, 9) is None
    assert history.version_at(value, 10).body == b"a"
    assert history.version_at(value, 29).body is None
    assert history.version_at(value, 99).body == b"c"


def test_a_clock_that_goes_back_counts_as_standing_still():
    value = pushed([OffsetVersion(1, 50, b"a"), OffsetVersion(1, 20, b"b")])
    assert [v.time_ms for v in history.decode_versions(value)] == [50, 50]
    assert history.version_at(value, 50).body == b"b"


def test_a_value_of_before_there_was_history_is_read_and_continued():
    old = struct.pack(">Q", 7) + b"offset"
    assert history.newest_version(old) == OffsetVersion(7, 0, b"offset")
    assert history.newest_epoch(old) == 7
    value = history.add_version(old, OffsetVersion(9, 100, b"new"))
    assert history.decode_versions(value) == [
        OffsetVersion(9, 100, b"new"),
        OffsetVersion(7, 0, b"offset"),
    ]
