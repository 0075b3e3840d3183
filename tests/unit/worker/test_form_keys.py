"""The keys of forms: the framework's, in groups, and those that a configuration adds."""

import asyncio
from types import SimpleNamespace

import pytest

from penstock.connector_config.keys import KAFKA_CONNECT_KEYS, KEYS, REPLAY_KEYS
from penstock.model.config_def import KeyDefinition
from penstock.model.errors import ConfigError, RetriableError
from penstock.plugin.catalog.manifest import Kind
from penstock.worker.admin.added_keys import find_added_keys
from penstock.worker.admin.framework_keys import framework_keys

OWN = (KeyDefinition("column", required=True), KeyDefinition("api.key", sensitive=True))
KINDS = {"com.acme.Mask": Kind.TRANSFORM, "acme": Kind.CONVERTER, "broken": Kind.TRANSFORM}


class Host:
    """A transform and a converter of plugins, and one that does not start."""

    @property
    def registry(self):
        return self  # what is installed is not read again for each name

    def find(self, name, version=""):
        if name not in KINDS:
            raise ConfigError("plugin.not_installed", name)
        return None, SimpleNamespace(kind=KINDS[name])

    async def acquire(self, name, version=""):
        if name == "broken":
            raise RetriableError("plugin.start", name)
        return SimpleNamespace(spec=SimpleNamespace(keys=OWN))


def added(config):
    return asyncio.run(find_added_keys(Host(), config))


def names(config):
    return [key.name for key in added(config).keys]


def test_every_key_of_the_settings_is_in_a_form_of_a_source_or_a_sink():
    found = {key.name for kind in (Kind.SOURCE, Kind.SINK) for key in framework_keys(kind)}
    assert {key.name for key in (*KEYS, *REPLAY_KEYS)} - found == {key.name for key in REPLAY_KEYS}
    assert framework_keys(Kind.TRANSFORM) == framework_keys(None) == ()


def test_a_key_without_effect_says_so_in_its_form():
    keys = {key.name: key for key in framework_keys(Kind.SOURCE)}
    for name in ("tasks.max.enforce", "offsets.storage.topic"):
        assert KAFKA_CONNECT_KEYS[name][0] in keys[name].documentation


def test_nothing_named_adds_nothing_but_offers_converters():
    assert added({}).keys == ()
    assert {value.name for value in added({}).values} == {
        "key.converter", "value.converter", "header.converter",
    }  # fmt: skip


def test_a_transform_of_a_plugin_adds_the_plugins_keys():
    config = {"transforms": "m", "transforms.m.type": "com.acme.Mask"}
    assert names(config) == [
        "transforms.m.type", "transforms.m.plugin.version", "transforms.m.column",
        "transforms.m.api.key", "transforms.m.predicate", "transforms.m.negate",
    ]  # fmt: skip
    keys = {key.name: key for key in added(config).keys}
    assert keys["transforms.m.api.key"].sensitive
    assert [key.order for key in keys.values()] == [1, 2, 3, 4, 5, 6]
    assert {key.group for key in keys.values()} == {"Transforms: m"}


def test_a_converter_of_a_plugin_adds_its_keys():
    assert names({"value.converter": "acme"}) == [
        "value.converter.column", "value.converter.api.key",
    ]  # fmt: skip


@pytest.mark.parametrize("type_", ["", "broken", "no-such", "acme", "TopicNameMatches"])
def test_a_type_that_does_not_fit_adds_only_what_every_transform_has(type_):
    assert names({"transforms": "m", "transforms.m.type": type_}) == [
        "transforms.m.type", "transforms.m.plugin.version", "transforms.m.predicate",
        "transforms.m.negate",
    ]  # fmt: skip


def test_rocketmqs_key_of_a_type_is_known():
    assert "transforms.m.column" in names(
        {"transforms": "m", "transforms.m.class": "com.acme.Mask"}
    )


def test_the_value_of_an_offered_key_is_what_was_written():
    config = {"predicates": "p", "predicates.p.type": "TopicNameMatches"}
    (value,) = [one for one in added(config).values if one.name == "predicates.p.type"]
    assert value.value == "TopicNameMatches"
    assert "RecordIsTombstone" in value.recommended_values
