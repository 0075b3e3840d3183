"""The rules of connectors, on values alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config import StoredConnector, records, rules
from penstock.model import config_def
from penstock.model.connector import Connector, ConnectorKind, TargetState
from penstock.model.errors import ConfigError
from penstock.store.port import Entry


def connector(**fields):
    return Connector(**{"name": "orders", "config": {"a": "1"}, "generation": "g", **fields})


@pytest.mark.parametrize(
    "name", ["a", "Orders-2.v1_x", "a/b", "a b", "ünï", "...", "a;--", "?x=1#", "%2F", "x" * 200]
)
def test_a_printable_name_is_accepted(name):
    rules.check_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        " ",
        " a",
        "a ",
        "a\n",
        "a\x00b",
        "a\x1b[2J",
        "a\u202eb",
        "a\u2028b",
        "x" * 201,
    ],
)
def test_an_unprintable_or_ambiguous_name_is_refused(name):
    with pytest.raises(ConfigError, match=r"config\.name") as caught:
        rules.check_name(name)
    assert caught.value.diagnostic.config_path == "name"


def test_a_configuration_is_bounded():
    with pytest.raises(ConfigError, match=r"config\.too_large"):
        rules.check_config("a", {"k": "x" * (config_def.MAX_CONFIG_BYTES + 1)})
    with pytest.raises(ConfigError, match=r"config\.too_large"):
        rules.check_config("a", {str(i): "" for i in range(config_def.MAX_CONFIG_KEYS + 1)})


def test_a_configuration_of_another_name_or_with_an_empty_key_is_refused():
    with pytest.raises(ConfigError, match=r"config\.name_mismatch"):
        rules.check_config("a", {"name": "b"})
    with pytest.raises(ConfigError, match=r"config\.empty_key"):
        rules.check_config("a", {"": "b"})
    rules.check_config("a", {"name": "a"})


def test_an_equal_configuration_is_the_same_object():
    existing = StoredConnector(connector(kind=ConnectorKind.SINK))
    assert rules.change_config(existing, connector(), 5) is existing
    assert rules.change_config(existing, connector(kind=ConnectorKind.SINK), 5) is existing


def test_a_new_configuration_keeps_generation_state_and_kind():
    existing = StoredConnector(connector(kind=ConnectorKind.SINK, target_state=TargetState.PAUSED))
    new = rules.change_config(existing, connector(config={"a": "2"}, generation=""), 5)
    assert new.connector.config == {"a": "2"}
    assert new.connector.generation == "g"
    assert new.connector.target_state is TargetState.PAUSED
    assert new.connector.kind is ConnectorKind.SINK
    assert new.updated_at == 5


def test_keys_that_were_secrets_once_stay_so():
    """Earlier versions are shown, too."""
    existing = StoredConnector(connector(secret_keys=("a",)))
    new = rules.change_config(existing, connector(config={"b": "2"}, secret_keys=("b",)), 5)
    assert new.connector.secret_keys == ("a", "b")
    assert records.decode_connector(
        Entry("connector/a", records.encode_connector(new), 3)
    ).connector.secret_keys == (
        "a",
        "b",
    )


def test_a_configuration_that_is_stored_again_unchanged_gets_its_secret_keys():
    """It may be of before its plugin declared them. It makes no new version."""
    existing = StoredConnector(connector(config={"pin": "1"}))
    new = rules.change_config(existing, connector(config={"pin": "1"}, secret_keys=("pin",)), 5)
    assert new.connector == replace(existing.connector, secret_keys=("pin",))
    assert rules.change_config(new, connector(config={"pin": "1"}, secret_keys=("pin",)), 6) is new


def test_a_kind_that_was_unset_may_be_set_and_never_changed():
    set_now = rules.change_config(
        StoredConnector(connector()), connector(kind=ConnectorKind.SINK), 5
    )
    assert set_now.connector.kind is ConnectorKind.SINK
    with pytest.raises(ConfigError, match=r"config\.kind_changed"):
        rules.change_config(set_now, connector(kind=ConnectorKind.SOURCE), 6)


def test_the_error_for_an_unknown_name_suggests_similar_names():
    assert "orders" in rules.not_found("ordres", ["orders", "users"]).diagnostic.fix
    assert rules.not_found("x", []).code == "config.not_found"


@given(
    st.dictionaries(st.text(), st.text()),
    st.sampled_from(ConnectorKind),
    st.sampled_from([s for s in TargetState if s]),
    st.integers(1, 2**62),
)
def test_a_stored_connector_comes_back(config, kind, state, revision):
    one = StoredConnector(connector(config=config, kind=kind, target_state=state), 12.25)
    entry = Entry("connector/orders", records.encode_connector(one), revision)
    assert records.decode_connector(entry) == one.at_revision(revision)
