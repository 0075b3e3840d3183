"""Every transform and each of its keys is in the tables that people read, and nothing else is."""

import re

from penstock.transform.registry import TRANSFORMS_BY_NAME
from support.checkout import ROOT

README = (ROOT / "services" / "penstock" / "transform" / "README.md").read_text(encoding="utf-8")
UNSAID = {"replace.null.with.default", "whitelist", "blacklist"}
"""Keys that are told of in sentences."""


def documented(text):
    """The keys of each type, by the rows of the tables."""
    found = {}
    for types, keys in re.findall(r"^\| (`[A-Za-z][^|]*`) \| ([^|]*) \|", text, re.MULTILINE):
        for type_ in re.findall(r"`([^`]+)`", types):
            found[type_] = set(re.findall(r"`([^`]+)`", keys))
    return found


def existing():
    kinds = {kind.names[0]: kind for kind in TRANSFORMS_BY_NAME.values()}
    return {name: {key.name for key in kind.keys} - UNSAID for name, kind in kinds.items()}


def test_every_transform_and_key_is_documented_and_nothing_else():
    assert documented(README.partition("## Predicates")[0]) == existing()


def test_a_key_without_a_word_goes_red():
    text = README.partition("## Predicates")[0].replace("`unix.precision`", "")
    assert documented(text) != existing()
