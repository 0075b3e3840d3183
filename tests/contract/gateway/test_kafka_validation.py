"""Kafka Connect's ConnectorValidationIntegrationTest, by the names of its cases: how many keys of a
configuration have errors when it is only checked.

| case | here |
|---|---|
| sink_connector_default_group_id_conflicts_with_worker_group_id | nobody is in a group |
| sink_connector_overridden_group_id_conflicts_with_worker_group_id | the same |
| connector_has_abstract_converter | no class is looked into: a name is served, or not |
| connector_has_converter_with_no_suitable_constructor | the same |
| connector_has_converter_that_throws_exception_on_instantiation | the same |
| …_header_converter… of these three | the same |
"""

from __future__ import annotations

import pytest

KAFKA = "org.apache.kafka.connect"
STRINGS = f"{KAFKA}.storage.StringConverter"
CONVERTERS = {"key.converter": STRINGS, "value.converter": STRINGS}
SINK = {"name": "sink-connector", "connector.class": "file-sink", "file": "/tmp/x", **CONVERTERS}
SOURCE = {"name": "source-connector", "connector.class": "verifiable-source", **CONVERTERS}
FILTER = f"{KAFKA}.transforms.Filter"
TOMBSTONE = f"{KAFKA}.transforms.predicates.RecordIsTombstone"


@pytest.fixture
def wrong(gateway):
    """Check a configuration; returns the keys that have errors."""

    def check(config, **more):
        config = config | {key.replace("_", "."): value for key, value in more.items()}
        path = f"/connector-plugins/{config['connector.class']}/config/validate"
        found = gateway.put(path, config).json()
        keys = [one["value"] for one in found["configs"]]
        names = {one["name"] for one in keys if one["errors"]}
        assert found["error_count"] == len(names)
        return names

    return check


def test_the_configurations_that_all_begin_with_are_valid(wrong):
    assert wrong(SINK, topics="t1") == set()
    assert wrong(SOURCE, topic="t1") == set()


def test_sink_connector_has_neither_topics_list_nor_topics_regex(wrong):
    assert wrong(SINK) == {"topics", "topics.regex"}


def test_sink_connector_has_both_topics_list_and_topics_regex(wrong):
    assert wrong(SINK, topics="t1", topics_regex="r.*") == {"topics", "topics.regex"}


@pytest.mark.parametrize("count", ["0", "-1"])
def test_no_tasks_are_no_connector(wrong, count):
    assert wrong(SINK, topics="t1", tasks_max=count) == {"tasks.max"}


@pytest.mark.parametrize(
    "name", ["FileStreamSource", f"{KAFKA}.file.FileStreamSourceConnector", "VerifiableSource"]
)
def test_a_source_that_needs_a_topic_in_kafka_connect_needs_one(wrong, name):
    config = {"name": "n", "connector.class": name}
    config |= {} if "Verifiable" in name else {"file": "/tmp/x"}
    assert wrong(config) == {"topic"}
    assert wrong(config, topic="t") == set()


def test_by_its_own_name_it_writes_to_a_topic_of_the_connectors_name(wrong):
    assert wrong(SOURCE) == set()


def test_a_version_that_is_not_installed_is_an_error_of_its_key(wrong):
    """As with Kafka Connect, which answers with a form."""
    assert wrong(SOURCE, topic="t", connector_plugin_version="[99,)") == {
        "connector.plugin.version"
    }
    assert wrong(SOURCE, topic="t", connector_plugin_version="[0,99)") == set()


def test_sink_connector_dead_letter_queue_topic_in_topics_list(wrong):
    letters = {"errors.deadletterqueue.topic.name": "t1"}
    assert wrong(SINK | letters, topics="t1") == set(letters)


def test_sink_connector_dead_letter_queue_topic_matches_topics_regex(wrong):
    letters = {"errors.deadletterqueue.topic.name": "ruh.roh"}
    assert wrong(SINK | letters, topics_regex="r.*") == set(letters)


def test_source_connector_has_duplicate_topic_creation_groups(wrong):
    found = wrong(SOURCE, topic="t1", topic_creation_groups="g1, g2, g1")
    assert found == {"topic.creation.groups"}


def test_connector_has_duplicate_transformations(wrong):
    assert wrong(SINK, topics="t1", transforms="t, t", transforms_t_type=FILTER) == {"transforms"}


def missing_or_invalid(wrong, section, name):
    key = f"{section}.x.type"
    assert wrong(SINK | {section: "x", key: name}, topics="t1") == {key}


def test_connector_has_missing_transform_class(wrong):
    missing_or_invalid(wrong, "transforms", "WheresTheFruit")


def test_connector_has_invalid_transform_class(wrong):
    missing_or_invalid(wrong, "transforms", "verifiable-sink")


def test_connector_has_negation_for_undefined_predicate(wrong):
    keys = {"transforms": "t", "transforms.t.type": FILTER, "transforms.t.negate": "true"}
    assert wrong(SINK | keys, topics="t1") == {"transforms.t.predicate"}


def test_connector_has_duplicate_predicates(wrong):
    found = wrong(SINK, topics="t1", predicates="p, p", predicates_p_type=TOMBSTONE)
    assert found == {"predicates"}


def test_connector_has_missing_predicate_class(wrong):
    missing_or_invalid(wrong, "predicates", "WheresTheFruit")


def test_connector_has_invalid_predicate_class(wrong):
    missing_or_invalid(wrong, "predicates", "verifiable-sink")


def test_connector_has_missing_converter_class(wrong):
    assert wrong(SINK, topics="t1", key_converter="WheresTheFruit") == {"key.converter"}


def test_connector_has_invalid_converter_class_type(wrong):
    assert wrong(SINK, topics="t1", key_converter="verifiable-sink") == {"key.converter"}


def test_connector_has_misconfigured_converter(wrong):
    json = {"key.converter": f"{KAFKA}.json.JsonConverter"}
    found = wrong(SINK | json, topics="t1", key_converter_schemas_enable="notaboolean")
    assert found == {"key.converter.schemas.enable"}


def test_connector_has_converter_with_no_config_def(wrong):
    bytes_ = f"{KAFKA}.converters.ByteArrayConverter"
    assert wrong(SINK, topics="t1", key_converter=bytes_) == set()


def test_connector_has_missing_header_converter_class(wrong):
    assert wrong(SINK, topics="t1", header_converter="WheresTheFruit") == {"header.converter"}


def test_connector_has_invalid_header_converter_class_type(wrong):
    assert wrong(SINK, topics="t1", header_converter="verifiable-sink") == {"header.converter"}


def test_connector_has_misconfigured_header_converter(wrong):
    json = {"header.converter": f"{KAFKA}.json.JsonConverter"}
    found = wrong(SINK | json, topics="t1", header_converter_schemas_enable="notaboolean")
    assert found == {"header.converter.schemas.enable"}


def test_connector_has_header_converter_with_no_config_def(wrong):
    simple = f"{KAFKA}.storage.SimpleHeaderConverter"
    assert wrong(SINK, topics="t1", header_converter=simple) == set()
