"""Kafka Connect's keys `topic.creation.…` (KIP-158)."""

import pytest

from penstock_connector import ConfigError, Pattern
from penstock_values.topic_creation import TopicCreation


def test_a_topic_is_created_as_its_first_group_says():
    found = TopicCreation(
        {
            "default.partitions": "6", "default.replication.factor": "2", "groups": "a, b",
            "a.include": "x.*", "a.exclude": "x-no", "a.partitions": "1",
            "a.cleanup.policy": "compact", "b.include": "x.*,y",
        },
        Pattern,
    )  # fmt: skip
    settings = found.settings("x1")
    assert (settings.partitions, settings.replication_factor) == (1, 2)
    assert settings.config == {"cleanup.policy": "compact"}
    for topic in ("x-no", "y", "zx1"):
        assert (found.settings(topic).partitions, found.settings(topic).config) == (6, {})
    assert found.setting_of("a.cleanup.policy") == "cleanup.policy"
    assert found.setting_of("groups") == ""
    assert TopicCreation({}, Pattern).settings("any").partitions == -1


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"groups": "a,a"}, "groups"),
        ({"groups": "default"}, "groups"),
        ({"groups": "a"}, "a.include"),
        ({"groups": "a", "a.include": "("}, "a.include"),
        ({"b.partitions": "1"}, "b.partitions"),
        ({"default.include": "x"}, "default.include"),
        ({"default.partitions": "0"}, "default.partitions"),
        ({"default.replication.factor": "two"}, "default.replication.factor"),
    ],
)
def test_groups_that_mean_nothing_are_refused_by_their_key(keys, path):
    with pytest.raises(ConfigError) as caught:
        TopicCreation(keys, Pattern)
    assert caught.value.config_path == f"topic.creation.{path}"
