"""Names in paths: whatever a name holds, the router sees one part, and a route the name."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.request_input import decode_name, decode_path


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1))
def test_every_name_comes_back_as_it_was(name):
    path = decode_path(f"/connectors/{quote(name, safe='')}/status".encode())
    before, part, after = path.rsplit("/", 2)
    assert (before, after) == ("/connectors", "status")
    assert decode_name(part) == name


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        (b"/connectors/a%2Fb", "/connectors/a%2Fb"),
        (b"/connectors/a%252Fb", "/connectors/a%252Fb"),
        (b"/connectors/a%20b", "/connectors/a b"),
        (b"/connectors/%C3%BC", "/connectors/ü"),
        (b"/connectors/..%2F..", "/connectors/..%2F.."),
        (b"/connectors/", "/connectors"),
        (b"/connectors/a/", "/connectors/a"),
        (b"/connectors/a%2F", "/connectors/a%2F"),
        (b"/connectors/a//", "/connectors/a/"),
        (b"/", "/"),
    ],
)
def test_what_a_router_sees(sent, seen):
    assert decode_path(sent) == seen


def test_what_is_no_text_is_refused():
    with pytest.raises(UnicodeDecodeError):
        decode_path(b"/connectors/%ff")
