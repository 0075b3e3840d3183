"""`message.key.columns`, and statements that a snapshot reads in place of tables: their forms."""

import pytest

from penstock_connector import ConfigError
from penstock_databases.cdc.message_keys import MessageKeys
from penstock_databases.cdc.snapshot_statements import read_statements

COLUMNS = ("id", "email", "uuid")


def test_the_first_pattern_that_matches_a_table_has_its_key():
    keys = MessageKeys.parse(" shop.orders : id , email ; crm[.].* :uuid;crm.a:id;")
    assert keys.key_of("shop.orders", COLUMNS) == ("id", "email")
    assert keys.key_of("crm.a", COLUMNS) == ("uuid",)
    assert keys.key_of("shop.orders2", COLUMNS) is None
    assert MessageKeys.parse("").key_of("shop.orders", COLUMNS) is None


def test_names_of_tables_are_compared_as_the_server_does():
    assert MessageKeys.parse("Shop.T:id", ignore_case=True).key_of("shop.t", COLUMNS) == ("id",)
    assert MessageKeys.parse("Shop.T:id").key_of("shop.t", COLUMNS) is None


@pytest.mark.parametrize("text", ["shop.orders", ":id", "shop.orders:", "a:id,", "a:id,id"])
def test_a_key_of_another_form_is_named_with_an_example(text):
    with pytest.raises(ConfigError, match=r"config\.invalid_value") as caught:
        MessageKeys.parse(f"x.y:id;{text}")
    assert repr(text) in caught.value.message
    assert MessageKeys.parse(caught.value.fix.partition("=")[2].rstrip("."))


def test_a_column_that_a_table_does_not_have_is_named_with_those_that_it_has():
    with pytest.raises(ConfigError, match=r"cdc\.key_column") as caught:
        MessageKeys.parse("shop.orders:mail").key_of("shop.orders", COLUMNS)
    assert "'mail' for shop.orders" in caught.value.message
    assert "id, email, uuid" in caught.value.message


def test_statements_stand_in_the_place_of_their_tables():
    found = read_statements(
        ["shop.orders", "a.b"], {"a.b": "with x as (select 1) select * from x", "shop.orders":
                                 " SELECT * FROM shop.orders WHERE c LIKE 'x%' -- big ;"}
    )  # fmt: skip
    assert list(found) == ["shop.orders", "a.b"]
    text = found["shop.orders"].rows
    assert text % () == "(SELECT * FROM shop.orders WHERE c LIKE 'x%' -- big\n) t"


@pytest.mark.parametrize(
    ("tables", "statements", "code", "path"),
    [
        (["a.b"], {}, "config.missing", ".a.b"),
        (["a.b"], {"a.b": " ; "}, "config.missing", ".a.b"),
        (["a.b"], {"a.b": "DELETE FROM b"}, "config.invalid_value", ".a.b"),
        (["a.b"], {"a.b": "SELECT 1", "a.c": "SELECT 2"}, "config.invalid_value", ""),
    ],
)
def test_a_statement_without_its_table_or_a_table_without_one_is_refused(
    tables, statements, code, path
):
    with pytest.raises(ConfigError) as caught:
        read_statements(tables, statements)
    assert caught.value.code == code
    assert caught.value.config_path == f"snapshot.select.statement.overrides{path}"
