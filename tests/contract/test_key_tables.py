"""The tables of keys in the READMEs of connectors, and those of other products' keys in pages, are
what `connectors/key_tables.py` writes.
"""

import pytest

from support.key_tables import load_key_tables


@pytest.fixture(scope="module")
def key_tables():
    return load_key_tables()


def test_every_table_is_fresh(key_tables):
    stale = [str(file) for file, text in key_tables.readmes() if key_tables.refresh(text) != text]
    assert stale == [], "run `python connectors/key_tables.py`"


def test_every_connector_has_one_table(key_tables):
    named = [name for _, text in key_tables.readmes() for name in key_tables.tables_of(text)]
    assert sorted(named) == sorted(key_tables.SPECS)


def test_every_table_of_other_products_is_in_one_page(key_tables):
    named = [
        name
        for _, text in key_tables.readmes()
        for name in key_tables.compatibility_tables_of(text)
    ]
    assert sorted(named) == sorted(key_tables.COMPATIBILITY_TABLES)


def test_every_key_of_debezium_is_in_force_without_effect_or_refused(key_tables):
    tables = {name: table() for name, table in key_tables.COMPATIBILITY_TABLES.items()}
    assert "| `topic.prefix` |" in tables["Debezium's in force, mysql-cdc"]
    assert "| `max.queue.size` | both |" in tables["Debezium's without effect"]
    assert "| `max.batch.size` | `mysql-cdc` |" in tables["Debezium's without effect"]
    assert "| `max.batch.size` |" in tables["Debezium's in force, postgres-cdc"]
    assert "| `column.mask.*` | both |" in tables["Debezium's refused"]


def test_a_key_without_effect_shows_the_value_that_gives_no_warning(key_tables):
    rows = key_tables.COMPATIBILITY_TABLES["Debezium's without effect"]().splitlines()
    locks = {row.split(" | ")[0]: row for row in rows if "`snapshot.locking." in row}
    assert "no warning with `none`" in locks["| `snapshot.locking.mode`"]
    assert "no warning" not in locks["| `snapshot.locking.mode.custom.name`"]


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
    with pytest.raises(KeyError):
        key_tables.refresh("<!-- compatibility keys: X -->\n<!-- end of compatibility keys -->\n")
