"""Shown configurations have no secrets."""

from __future__ import annotations

import re

import pytest

from penstock.model.config_redaction import REDACTED, is_redacted, is_sensitive_key, redact_value
from support.checkout import ROOT

_DECLARED = re.compile(r"^    (\w+): [^=\n]+= key\(\s*[^)]*?type=\"password\"", re.MULTILINE)
KEYS = sorted(
    name.replace("_", ".")
    for path in (ROOT / "connectors").rglob("*.py")
    if "tests" not in path.parts and "penstock_connector" not in path.parts
    for name in _DECLARED.findall(path.read_text(encoding="utf-8"))
)


def test_keys_of_the_connectors_that_ship_were_found():
    assert {"sftp.key", "sftp.password", "database.password", "oauth2.client.secret"} <= {*KEYS}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("prefix", ["", "sink.", "errors.deadletterqueue.sink."])
def test_each_password_key_of_the_connectors_is_redacted_by_its_name(prefix, key):
    assert is_sensitive_key(prefix + key)
    assert redact_value(prefix + key, "-----BEGIN") == REDACTED


@pytest.mark.parametrize(
    "key", ["message.key", "key", "key.converter", "table.key", "monkey", "sink.s3.credentials"]
)
def test_other_keys_are_shown(key):
    assert redact_value(key, "id") == "id"


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("mysql://user:p@ss@host/db", "mysql://user:***@host/db"),
        ("mysql://user:p/ss@host/db?ssl=true", "mysql://user:***@host/db?ssl=true"),
        ("postgresql://host:5432/db", "postgresql://host:5432/db"),
        ("a://h/b,c://user:p@h,d://user:q@h", "a://h/b,c://user:***@h"),
        ("a://u:p@h b://h c://:p@h", "a://u:***@h b://h c://:***@h"),
        ("Authorization: Bearer abc", "Authorization: ***"),
        ("X-Trace: 1,Cookie: a=b; c=d", "X-Trace: 1,Cookie: ***; c=d"),
        ("jdbc:x://h/db?user=u&password=p&a=b", "jdbc:x://h/db?user=u&password=***&a=b"),
    ],
)
def test_a_secret_inside_of_a_value_is_redacted(value, seen):
    assert redact_value("url", value) == seen
    assert is_redacted("url", seen) == (REDACTED in seen)
    assert not is_redacted("url", value)


@pytest.mark.parametrize("value", ["***", "x://u:p@h/a?b=***", "SELECT 1 /*** all ***/ FROM t"])
def test_asterisks_that_replace_no_secret_are_not_a_redaction(value):
    assert not is_redacted("query", value)


@pytest.mark.parametrize("part", ["://:", "://u:@", "cookie ", "token ", "a:b@"])
def test_redaction_takes_linear_time(part):
    """A pattern with quadratic time would exceed the timeout of the test."""
    value = part * ((512 << 10) // len(part))
    assert len(redact_value("url", value)) <= len(value)
    assert not is_redacted("url", value)
