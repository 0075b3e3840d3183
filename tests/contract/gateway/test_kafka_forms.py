"""`config/validate` as the forms of Kafka Connect's clients read it: AKHQ stores only the keys that
it lists, Redpanda Console and kcctl show its groups in their order.

`KAFKAS` is what Kafka Connect 4.3.1 defines for sources and sinks: keys in order, by group.
"""

from __future__ import annotations

import pytest

KAFKA = "org.apache.kafka.connect"
COMMON = [
    "name", "connector.class", "connector.plugin.version", "tasks.max", "tasks.max.enforce",
    "key.converter", "key.converter.plugin.version", "value.converter",
    "value.converter.plugin.version", "header.converter", "header.converter.plugin.version",
    "config.action.reload",
]  # fmt: skip
ERRORS = [
    "errors.retry.timeout", "errors.retry.delay.max.ms", "errors.tolerance", "errors.log.enable",
    "errors.log.include.messages",
]  # fmt: skip
DLQ = "errors.deadletterqueue."
KAFKAS = {
    "source": {
        "Common": COMMON,
        "Transforms": ["transforms"],
        "Predicates": ["predicates"],
        "Error Handling": ERRORS,
        "Topic Creation": ["topic.creation.groups"],
        "Exactly Once Support": [
            "exactly.once.support", "transaction.boundary", "transaction.boundary.interval.ms",
        ],
        "offsets.topic": ["offsets.storage.topic"],
    },
    "sink": {
        "Common": [*COMMON[:5], "topics", "topics.regex", *COMMON[5:]],
        "Transforms": ["transforms"],
        "Predicates": ["predicates"],
        "Error Handling": [
            *ERRORS, f"{DLQ}topic.name", f"{DLQ}topic.replication.factor",
            f"{DLQ}context.headers.enable",
        ],
    },
}  # fmt: skip
PLUGINS = {"source": "verifiable-source", "sink": "file-sink"}


@pytest.fixture
def form(gateway):
    """Validate a configuration; returns the answer, and its keys by name."""

    def validate(config, plugin="verifiable-source"):
        answer = gateway.put(f"/connector-plugins/{plugin}/config/validate", config)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        names = [one["definition"]["name"] for one in found["configs"]]
        assert len(names) == len(set(names))
        return found, {one["definition"]["name"]: one for one in found["configs"]}

    return validate


@pytest.mark.parametrize("kind", KAFKAS)
def test_kafkas_keys_are_in_its_groups_and_order(form, kind):
    found, keys = form({}, PLUGINS[kind])
    groups = KAFKAS[kind]
    assert found["groups"][: len(groups)] == list(groups)
    for group, names in groups.items():
        ours = [key["definition"] for key in keys.values() if key["definition"]["group"] == group]
        ours.sort(key=lambda key: key["order"])
        assert [key["name"] for key in ours if key["name"] in names] == names
        assert len({key["order"] for key in ours}) == len(ours)


def test_what_kafka_defines_only_for_the_other_kind_is_not_there(form):
    _, source = form({})
    _, sink = form({}, "file-sink")
    assert not {"topics", "topics.regex"} & source.keys()
    assert not {"topic.creation.groups", "offsets.storage.topic", "topic"} & sink.keys()


def test_keys_of_transforms_and_predicates_are_there_as_soon_as_they_are_named(form):
    config = {
        "transforms": "id, route",
        "transforms.id.type": f"{KAFKA}.transforms.ExtractField$Value",
        "transforms.id.predicate": "of-orders",
        "predicates": "of-orders",
        "predicates.of-orders.type": f"{KAFKA}.transforms.predicates.TopicNameMatches",
    }
    found, keys = form(config)
    added = ["Transforms: id", "Transforms: route", "Predicates: of-orders"]
    assert [group for group in found["groups"] if ": " in group] == added
    names = [name for name, key in keys.items() if key["definition"]["group"] == added[0]]
    assert names[:2] == ["transforms.id.type", "transforms.id.plugin.version"]
    assert {"transforms.id.field", "transforms.id.predicate", "transforms.id.negate"} < set(names)
    assert keys["transforms.id.field"]["definition"]["required"]
    assert keys["transforms.id.field"]["value"]["value"] is None
    # what has no type yet offers types, and nothing but the keys of every transform
    offered = keys["transforms.route.type"]["value"]["recommended_values"]
    assert {"Filter", f"{KAFKA}.transforms.RegexRouter"} <= set(offered)
    assert keys["transforms.route.type"]["definition"]["type"] == "CLASS"
    assert "transforms.route.field" not in keys
    assert keys["predicates.of-orders.pattern"]["definition"]["required"]
    assert keys["transforms.id.predicate"]["value"]["recommended_values"] == ["of-orders"]


def test_keys_of_converters_and_of_groups_of_topics_are_there(form):
    config = {
        "topic": "t",
        "value.converter": f"{KAFKA}.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "topic.creation.groups": "compacted",
        "topic.creation.compacted.cleanup.policy": "compact",
    }
    _, keys = form(config)
    assert keys["value.converter.schemas.enable"]["value"]["value"] == "false"
    assert keys["value.converter.schemas.enable"]["definition"]["type"] == "BOOLEAN"
    assert "key.converter.schemas.enable" not in keys
    offered = keys["key.converter"]["value"]["recommended_values"]
    assert f"{KAFKA}.storage.StringConverter" in offered
    headers = keys["header.converter"]["value"]["recommended_values"]
    assert f"{KAFKA}.storage.SimpleHeaderConverter" in headers
    assert {
        "topic.creation.default.partitions",
        "topic.creation.compacted.include",
        "topic.creation.compacted.replication.factor",
    } <= keys.keys()


def test_every_key_that_was_given_is_there(form):
    """AKHQ stores what the answer lists."""
    config = {
        "name": "k",
        "connector.class": f"{KAFKA}.file.FileStreamSourceConnector",
        "file": "x",
        "topic": "t",
        "description": "ours",
        "_owner.password": "canary",
        "producer.override.linger.ms": "5",
        "topic.creation.default.cleanup.policy": "delete",
        "transforms.off.type": "Filter",
    }
    found, keys = form(config, config["connector.class"])
    assert config.keys() <= keys.keys()
    assert keys["description"]["value"]["value"] == "ours"
    assert keys["_owner.password"]["value"]["value"] == "***"
    assert keys["_owner.password"]["definition"]["type"] == "PASSWORD"
    assert "canary" not in str(found)


def test_a_configuration_that_cannot_be_read_has_its_form_all_the_same(form):
    wrong = {
        "transforms": "a, a, b",
        "transforms.a.type": "no-such",
        "value.converter": "file-sink",
    }
    found, keys = form(wrong)
    assert found["error_count"] >= 2
    assert {"transforms.a.type", "transforms.b.type"} <= keys.keys()
    assert keys["transforms.a.type"]["value"]["recommended_values"]


def test_names_without_end_do_not_make_forms_without_end(form):
    config = {"transforms": ",".join(f"t{n}" for n in range(120))}
    _, keys = form(config)
    assert "transforms.t99.type" in keys
    assert "transforms.t100.type" not in {
        name for name, key in keys.items() if key["definition"]["group"]
    }


def test_a_plugin_hides_and_offers_by_the_other_values(form):
    def shown(**config):
        _, keys = form(config, "file-source")
        return {name: key["value"] for name, key in keys.items()}

    text, csv, avro = shown(), shown(format="csv"), shown(format="avro")
    assert not text["csv.header"]["visible"]
    assert csv["csv.header"]["visible"]
    assert not csv["text.regex"]["visible"]
    assert csv["compression"]["recommended_values"] == ["auto", "none", "gzip", "zstd"]
    assert avro["compression"]["recommended_values"] == ["auto", "none"]
