"""The tables of keys in the READMEs of connectors are what `connectors/key_tables.py` writes."""

import importlib.util
import sys

import pytest

from support.checkout import ROOT

SCRIPT = ROOT / "connectors" / "key_tables.py"


@pytest.fixture(scope="module")
def key_tables():
    spec = importlib.util.spec_from_file_location("key_tables", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["key_tables"] = module
    spec.loader.exec_module(module)
    return module


def test_every_table_is_fresh(key_tables):
    stale = [str(file) for file, text in key_tables.readmes() if key_tables.refresh(text) != text]
    assert stale == [], "run `python connectors/key_tables.py`"


def test_every_connector_has_one_table(key_tables):
    named = [name for _, text in key_tables.readmes() for name in key_tables.tables_of(text)]
    assert sorted(named) == sorted(key_tables.SPECS)


def test_another_word_default_or_choice_goes_red(key_tables):
    spec = key_tables.SPECS["jdbc-source"]
    for change in ("documentation", "default_value", "choices"):
        other = type(spec)()
        other.CopyFrom(spec)
        key = next(key for key in other.config_keys if key.name == "numeric.mapping")
        if change == "choices":
            key.choices.append("another")
        else:
            setattr(key, change, "another")
        assert key_tables.key_table(other) != key_tables.key_table(spec), change


def test_a_mark_that_names_no_connector_is_an_error(key_tables):
    with pytest.raises(KeyError):
        key_tables.refresh("<!-- keys of nobody -->\n<!-- end of keys -->\n")
