"""`/connector-plugins`: what is installed, what it can be told, what is wrong with that."""

from __future__ import annotations

import pytest

FIELDS = {
    "name", "type", "required", "default_value", "importance", "documentation", "group",
    "order_in_group", "order", "width", "display_name", "dependents",
}  # fmt: skip


def test_what_is_installed_is_listed(gateway):
    found = gateway.get("/connector-plugins").json()
    assert {"class": "file-sink", "type": "sink"}.items() <= next(
        one for one in found if one["class"] == "file-sink"
    ).items()
    assert {one["type"] for one in found} == {"source", "sink"}
    assert all(one["version"] for one in found)
    names = {one["class"] for one in found}
    assert "org.apache.kafka.connect.file.FileStreamSourceConnector" in names
    assert "io.confluent.connect.jdbc.JdbcSinkConnector" in names


@pytest.mark.parametrize(
    "name", ["FileStreamSourceConnector", "FileStreamSource", "MySqlConnector", "MySql"]
)
def test_java_s_classes_are_known_without_their_packages(gateway, name):
    assert gateway.get(f"/connector-plugins/{name}/config").status_code == 200
    body = {"connector.class": name, "name": "k", "topic": "t"}
    answer = gateway.put(f"/connector-plugins/{name}/config/validate", body)
    # what is wrong is what the plugin misses, which knows only its own names and whole class names
    wrong = {one["value"]["name"] for one in answer.json()["configs"] if one["value"]["errors"]}
    assert wrong in ({"path"}, {"database.hostname"})


def test_what_needs_no_plugin_is_listed_on_demand(gateway):
    found = gateway.get("/connector-plugins?connectorsOnly=false").json()
    connectors = gateway.get("/connector-plugins").json()
    assert found[: len(connectors)] == connectors
    kinds = {"transformation", "predicate", "converter", "header_converter"}
    assert {one["type"] for one in found[len(connectors) :]} == kinds
    names = {(one["type"], one["class"]) for one in found}
    kafka = "org.apache.kafka.connect"
    assert {
        ("transformation", "Filter"),
        ("transformation", f"{kafka}.transforms.Cast$Key"),
        ("predicate", f"{kafka}.transforms.predicates.TopicNameMatches"),
        ("converter", f"{kafka}.json.JsonConverter"),
        ("header_converter", f"{kafka}.storage.SimpleHeaderConverter"),
    } <= names


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("org.apache.kafka.connect.transforms.Cast$Value", "spec"),
        ("TopicNameMatches", "pattern"),
        ("org.apache.kafka.connect.json.JsonConverter", "schemas.enable"),
    ],
)
def test_keys_of_what_needs_no_plugin_are_told(gateway, name, key):
    keys = gateway.get(f"/connector-plugins/{name}/config").json()
    assert all(set(one) == FIELDS for one in keys)
    assert key in {one["name"] for one in keys}


def test_clients_of_kafka_are_told_what_the_policy_allows(gateway):
    config = {"name": "a", "topic": "t", "producer.override.acks": "all"}
    assert validated(gateway, config)[0]["error_count"] == 0
    refused = "producer.override.bootstrap.servers"
    found, keys = validated(gateway, {**config, refused: "elsewhere:9092"})
    assert found["error_count"] == 1
    (said,) = keys[refused]["value"]["errors"]
    assert "The 'Allowlist' policy does not allow 'bootstrap.servers' to be overridden" in said
    answer = gateway.put(
        "/connectors/refused/config",
        {"connector.class": "verifiable-source", refused: "elsewhere:9092"},
    )
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (
        400,
        "config.override_refused",
    )


@pytest.mark.parametrize("name", ["file-source", "FileStreamSource"])
def test_keys_are_told(gateway, name):
    keys = gateway.get(f"/connector-plugins/{name}/config").json()
    assert all(set(key) == FIELDS for key in keys)
    names = [key["name"] for key in keys]
    assert {"name", "connector.class", "tasks.max", "topic", "file"} <= set(names)
    assert len(names) == len(set(names))


def test_a_version_may_be_asked_for(gateway):
    path = "/connector-plugins/file-source/config"
    assert gateway.get(f"{path}?version=latest").status_code == 200
    assert gateway.get(f"{path}?version=[0,99)").status_code == 200
    assert gateway.get(f"{path}?version=[99,)").status_code == 404


def test_what_is_not_installed_is_not_found(gateway):
    assert gateway.get("/connector-plugins/none/config").status_code == 404
    answer = gateway.put("/connector-plugins/none/config/validate", {"name": "a"})
    assert answer.status_code == 404


def validated(gateway, config, name="verifiable-source"):
    answer = gateway.put(f"/connector-plugins/{name}/config/validate", config)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert set(found) == {"name", "error_count", "groups", "configs"}
    return found, {one["value"]["name"]: one for one in found["configs"]}


def test_a_good_configuration_has_no_errors(gateway):
    found, keys = validated(gateway, {"name": "a", "rows": "5", "topic": "t"})
    assert found["error_count"] == 0
    assert keys["rows"]["value"]["value"] == "5"
    assert set(keys["rows"]["definition"]) == FIELDS


def test_errors_stand_at_their_keys(gateway):
    found, keys = validated(gateway, {"rows": "many", "rowz": "1", "tasks.max": "x"})
    assert found["error_count"] == 4
    for name in ("name", "rows", "rowz", "tasks.max"):
        assert keys[name]["value"]["errors"], name


def test_another_class_is_refused(gateway):
    path = "/connector-plugins/verifiable-source/config/validate"
    answer = gateway.put(path, {"name": "a", "connector.class": "file-sink"})
    assert (answer.status_code, answer.json()["code"]) == (400, "plugin.another")
    answer = gateway.put(
        "/connector-plugins/FileStreamSource/config/validate",
        {"name": "a", "connector.class": "file-source", "file": "/x", "topic": "t"},
    )
    assert answer.status_code == 200


def test_keys_that_kafka_connect_would_ignore_are_warnings_under_its_class_names(gateway, made):
    java = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    config = {"name": "k", "file": "none", "topic": "t", "description": "ours", "_owner": "me"}
    path = f"/connector-plugins/{java}/config/validate"
    body = {"connector.class": java, **config}
    answer = gateway.put(path, body).json()
    assert answer["error_count"] == 0, answer
    own = gateway.put("/connector-plugins/file-source/config/validate", {
        "connector.class": "file-source", **config
    }).json()  # fmt: skip
    assert own["error_count"] == 2
    strict = gateway.put(path, {**body, "config.unknown.keys": "fail"}).json()
    assert strict["error_count"] == 2
    path = made(**{key: value for key, value in body.items() if key != "name"})
    assert gateway.get(f"{path}/config").json()["_owner"] == "me"
