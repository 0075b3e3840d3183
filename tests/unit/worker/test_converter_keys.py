"""Errors in converter keys of Kafka Connect are reported although the keys have no effect."""

import pytest

from penstock.model.errors import Severity
from penstock.plugin.catalog.manifest import Kind
from penstock.worker.admin.connector_plugins import check_converters

KAFKA = "org.apache.kafka.connect"
SERVED = {"lines": Kind.CONVERTER, "file-sink": Kind.SINK}


def found(**config):
    keys = {key.replace("_", "."): value for key, value in config.items()}
    return [
        (one.code, one.config_path, one.severity is Severity.ERROR)
        for one in check_converters(keys, SERVED.get)
    ]


@pytest.mark.parametrize(
    "name",
    [
        "json",
        "StringConverter",
        f"{KAFKA}.json.JsonConverter",
        f"{KAFKA}.converters.ByteArrayConverter",
        "lines",
        "",
        "io.confluent.connect.avro.AvroConverter",
    ],
)
@pytest.mark.parametrize("key", ["key_converter", "value_converter", "header_converter"])
def test_known_converters_and_those_of_registries_are_accepted(key, name):
    assert found(**{key: name}) == []


def test_headers_have_one_more_converter():
    simple = f"{KAFKA}.storage.SimpleHeaderConverter"
    assert found(header_converter=simple) == []
    assert found(key_converter=simple) == [("converter.unknown", "key.converter", True)]


def test_an_unknown_converter_is_reported_with_its_key():
    assert found(value_converter="WheresTheFruit") == [
        ("converter.unknown", "value.converter", True)
    ]
    assert found(header_converter="file-sink") == [("plugin.wrong_kind", "header.converter", True)]


def test_a_wrong_value_is_an_error_and_an_unknown_key_a_warning():
    json = f"{KAFKA}.json.JsonConverter"
    assert found(value_converter=json, value_converter_schemas_enable="perhaps") == [
        ("config.invalid_value", "value.converter.schemas.enable", True)
    ]
    assert found(value_converter=json, value_converter_schemas_enabled="true") == [
        ("config.unknown_key", "value.converter.schemas.enabled", False)
    ]
