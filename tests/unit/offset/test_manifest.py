"""The manifest of a generation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.offset.records import Manifest, decode_manifest, encode_manifest

names = st.lists(st.text("abc-0", max_size=5)).map(tuple)


@given(
    st.builds(
        Manifest,
        st.integers(0),
        st.integers(0),
        st.text("ab"),
        names,
        st.text("ab"),
        names,
        st.booleans(),
    )
)
def test_a_manifest_comes_back(manifest):
    assert decode_manifest(encode_manifest(manifest)) == manifest


def test_the_stored_form_of_a_manifest_keeps_its_keys():
    manifest = Manifest(5, 9, "v1", ("j1",), "v2", ("v0",))
    assert encode_manifest(manifest) == (
        b'{"floor":5,"top":9,"line":"v1","journals":["j1"],"building":"v2","dead":["v0"],'
        b'"gone":false}'
    )


def test_a_manifest_of_before_there_were_versions_is_its_floor():
    assert decode_manifest(b"7") == Manifest(floor=7, newest_epoch=7)


def test_an_epoch_that_was_seen_changes_nothing():
    manifest = Manifest(newest_epoch=9)
    assert manifest.with_claim(9) is manifest
    assert manifest.with_claim(10).newest_epoch == 10


def test_a_fence_is_above_every_epoch_that_claimed_and_never_lowered():
    assert Manifest(newest_epoch=9).with_fence(5).floor == 9
    assert Manifest(floor=20, newest_epoch=20).with_fence(5).floor == 20
    assert Manifest().with_fence(5) == Manifest(floor=5, newest_epoch=5)


def test_a_claim_or_a_fence_abandons_a_pending_version():
    pending = Manifest(newest_epoch=5).with_pending("new")
    for later in (pending.with_claim(6), pending.with_fence(0)):
        assert later.pending_version == ""
        assert later.dead_versions == ("new",)
        assert later.version == ""


def test_a_switch_leaves_the_version_before_to_be_deleted():
    switched = Manifest(version="old").with_pending("new").switched()
    assert (switched.version, switched.pending_version) == ("new", "")
    assert switched.dead_versions == ("old",)
    assert switched.needs_compaction
