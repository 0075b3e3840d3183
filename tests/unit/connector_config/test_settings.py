"""The framework's keys as values."""

import pytest

from penstock.connector_config.settings import read_restart_policy, read_settings
from penstock.model.topic import Retention
from penstock.standalone.settings import node_settings


@pytest.mark.parametrize(
    ("keys", "retention"),
    [
        ({}, None),
        ({"topic.retention": "7d"}, Retention(7 * 86400.0, 0)),
        ({"topic.retention.bytes": "1GiB"}, Retention(0.0, 1 << 30)),
        ({"topic.retention": "0"}, Retention(0.0, 0)),  # for ever, whatever the node says
    ],
)
def test_a_topic_has_its_own_retention(keys, retention):
    settings, findings = read_settings({"name": "n", "connector.class": "c", **keys})
    assert settings.topic_retention == retention
    assert findings == []


def test_the_node_sets_the_place_of_topics(tmp_path):
    keys = {"state.dir": str(tmp_path)}
    settings, _ = node_settings(keys)
    assert settings.worker.topics_dir == str(tmp_path / "topics")
    keys |= {"topics.dir": "s3://bucket/prefix", "topics.s3.endpoint": "http://store:9000"}
    keys |= {"topics.s3.access.key": "an-access-key", "topics.s3.secret.key": "a-secret-key"}
    settings, warnings = node_settings(keys)
    assert warnings == []
    assert settings.worker.topics_dir == "s3://bucket/prefix"
    assert settings.worker.topics_s3.options["aws_endpoint_url"] == "http://store:9000"
    assert settings.worker.topics_s3.options["aws_secret_access_key"] == "a-secret-key"
    assert "a-secret-key" not in repr(settings)
    assert "an-access-key" not in repr(settings)


def test_the_node_sets_the_default_retention(tmp_path):
    keys = {"state.dir": str(tmp_path), "topics.retention": "1h", "topics.retention.bytes": "4096"}
    settings, _ = node_settings(keys)
    assert settings.worker.topics_retention == Retention(3600.0, 4096)


@pytest.mark.parametrize(("text", "most", "codes"), [
    ("-1", None, []), ("3", 3, []), ("0", 0, ["config.invalid_value"]),
    ("-2", None, ["config.invalid_value"]),
])  # fmt: skip
def test_retries_of_unwritten_rows_are_at_least_one(text, most, codes):
    found, findings = read_settings({"name": "a", "errors.retry.max": text})
    assert found.retries.max_writes == most
    assert [(one.code, one.config_path) for one in findings] == [
        (code, "errors.retry.max") for code in codes
    ]


def test_restarts_have_the_delays_of_their_connector():
    found = read_restart_policy({"restart.delay": "2s", "restart.delay.max": "1m"})
    assert (found.first_delay_s, found.max_delay_s) == (2.0, 60.0)
    assert [found.delay_s(n) for n in (0, 1, 10)] == [2.0, 4.0, 60.0]
    usual = read_restart_policy({})
    assert (usual.first_delay_s, usual.max_delay_s) == (0.5, 30.0)
    none = read_restart_policy({"restart.delay": "0", "restart.delay.max": "0"})
    assert none.delay_s(0) == none.delay_s(50) == 0.05, "a crash at once must not take a core"


@pytest.mark.parametrize("number", ["0", "-1"])
def test_a_connector_without_tasks_is_refused(number):
    _, findings = read_settings({"name": "c", "tasks.max": number})
    assert [(one.code, one.config_path) for one in findings] == [
        ("config.invalid_value", "tasks.max")
    ]
