"""Names stay names, whatever is in them."""

import pytest

from penstock_connector.testing import RemoteError

NAMES = [
    'qu"ote', "back`tick", "it's", "percent%s%%", "semi;--", "/*c*/", "back\\slash", "select",
    "Ünï😀", "x" * 64, " sp ace ", "new\nline", "a.b", "@~", "$1", "?", ":p", "CamelCase",
]  # fmt: skip


@pytest.mark.parametrize("place", ["folder", "server"], indirect=True)
def test_names_with_every_quote_stay_names(place):
    keys = {"insert_mode": "upsert", "pk_mode": "record_value", "delete_enabled": "true"}
    with place.task(table_name_format='"${topic}"', pk_fields=NAMES[0], **keys) as task:
        task.write([{"x": "sentinel", NAMES[0]: 1}], dataset="sentinel")
        for name in NAMES:
            row = dict.fromkeys(NAMES, name)
            task.write([row], dataset=name)
            task.write([row, {**row, "plus " + name: 1}], dataset=name)
        task.close()
    for name in NAMES:
        (row,) = place.table(name).to_pylist()
        assert {key: row[key] for key in NAMES} == dict.fromkeys(NAMES, name)
        assert row["plus " + name] == 1
    assert place.rows("sentinel") == [(1, "sentinel")]


def test_names_that_differ_in_case_are_two(folder):
    with folder.task() as task:
        task.write([{"a": 1, "A": 2}], dataset="t")
        task.write([{"a": 3}], dataset="T")
        task.close()
    assert folder.rows("t") == [(1, 2)]
    assert folder.rows("T") == [(3,)]


@pytest.mark.parametrize("name", ["nul\0", "x" * 256])
def test_what_cannot_be_a_name_is_refused_before_anything_is_done(folder, name):
    with folder.task(table_name_format='"${topic}"') as task:
        with pytest.raises(RemoteError) as caught:
            task.write([{"id": 1}], dataset=name)
        assert caught.value.code == "sql.bad_name"
