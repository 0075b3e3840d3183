"""What a page of another site has a browser send is refused; programs are not."""

from __future__ import annotations

import pytest

from penstock.gateway.access.audit import is_change
from penstock.gateway.access.guard import is_loopback, refuse_cross_site, refuse_foreign_hosts
from penstock.model.errors import AuthError

HERE = "127.0.0.1:8083"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_page_of_another_site_changes_nothing(headers):
    with pytest.raises(AuthError, match=r"access\.other_site"):
        refuse_cross_site({"host": HERE, **headers})
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert is_change(method, "/connectors")
    assert is_change("GET", "/plugin/reload")
    assert is_change("GET", "/plugin/reload\n")
    assert not is_change("GET", "/connectors"), "a browser shows the answer to nobody"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": f"http://{HERE}"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
    ],
)
def test_programs_and_own_pages_do(headers):
    refuse_cross_site({"host": HERE, **headers})


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("localhost", True),
        ("LOCALHOST:8083", True),
        ("127.0.0.1:8083", True),
        ("127.8.9.1", True),
        ("[::1]:8083", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example:8083", False),
        ("10.0.0.1", False),
        ("", False),
        ("[::1", False),
        ("localhost@evil.example", False),
    ],
)
def test_names_of_this_machine(host, ours):
    assert is_loopback(host) is ours
    if not ours:
        with pytest.raises(AuthError, match=r"access\.other_name"):
            refuse_foreign_hosts({"host": host})
