"""Variables that were allowed, and never the worker's own."""

import asyncio

import pytest

from penstock.model.errors import PenstockError
from penstock.model.pattern import Pattern
from penstock.secrets.local_providers import EnvironmentProvider

PLACE = {"DB_PASSWORD": "x", "HOME": "/root", "PENSTOCK_ETCD_PASSWORD": "hidden"}


def read(pattern, key, path=""):
    provider = EnvironmentProvider(Pattern.from_text(pattern, "p"), PLACE)
    return dict(asyncio.run(provider.read(path, [key])).values)


def test_names_that_match_as_a_whole_are_read():
    assert read("DB_.*", "DB_PASSWORD") == {"DB_PASSWORD": "x"}
    with pytest.raises(PenstockError, match="no variable DB_OTHER") as caught:
        read("DB_.*", "DB_OTHER")
    assert "export DB_OTHER=" in caught.value.diagnostic.fix


@pytest.mark.parametrize(
    ("pattern", "key", "path"),
    [
        ("DB_", "DB_PASSWORD", ""),
        ("DB_.*", "HOME", ""),
        (".*", "PENSTOCK_ETCD_PASSWORD", ""),
        (".*", "HOME", "a"),
    ],
)
def test_all_others_are_refused(pattern, key, path):
    with pytest.raises(PenstockError, match=r"secrets\.refused") as caught:
        read(pattern, key, path)
    assert "hidden" not in str(caught.value)
