"""Which settings of Kafka's clients a connector may set."""

from pathlib import Path

import pytest

from penstock.model.config_def import parse
from penstock.model.errors import ConfigError, Severity
from penstock.worker.config.client_overrides import (
    TUNING,
    OverridePolicy,
    override_policy,
    unused_override,
)
from penstock.worker.process_keys import KEYS
from penstock.worker.process_settings import read_worker_settings

JAAS = "consumer.override.sasl.jaas.config"


def refused(policy, *keys):
    return {one.config_path for one in policy.check(keys)}


def test_only_tuning_is_allowed_by_default():
    policy = read_worker_settings(parse(KEYS, {}), {}, Path("topics")).overrides
    assert policy == OverridePolicy() == override_policy("Allowlist", TUNING)
    tuning = [f"producer.override.{setting}" for setting in TUNING]
    assert refused(policy, *tuning) == set()
    others = ("bootstrap.servers", "sasl.jaas.config", "interceptor.classes", "group.id")
    keys = [f"consumer.override.{setting}" for setting in others]
    assert refused(policy, *keys) == set(keys)


@pytest.mark.parametrize(
    ("name", "some", "others"),
    [
        ("None", (), ("producer.override.acks", JAAS)),
        ("All", ("producer.override.acks", JAAS), ()),
        ("Principal", (JAAS, "admin.override.security.protocol"), ("producer.override.acks",)),
        ("Allowlist", ("admin.override.retries",), ("producer.override.acks", JAAS)),
    ],
)
def test_a_policy_allows_the_same_as_kafka_connects_policy_of_its_name(name, some, others):
    package = "org.apache.kafka.connect.connector.policy"
    for called in (name, f"{package}.{name}ConnectorClientConfigOverridePolicy"):
        policy = override_policy(called, ["retries"])
        assert refused(policy, *some, *others) == set(others)


def test_a_refusal_has_kafka_connects_message_and_our_code():
    (found,) = override_policy("None", ()).check([JAAS])
    assert found.code == "config.override_refused"
    assert found.message == (
        "The 'None' policy does not allow 'sasl.jaas.config' to be overridden in the connector "
        "configuration."
    )
    assert "connector.client.config.override.allowlist" in found.fix


def test_a_setting_of_a_client_that_is_not_there_gets_a_warning():
    reset = unused_override("consumer.override.auto.offset.reset")
    acks = unused_override("producer.override.acks")
    assert {reset.code, acks.code} == {"config.not_here_yet"}
    assert reset.fix == "Set `auto.offset.reset` instead."
    assert acks.severity is Severity.WARNING


def test_an_unknown_policy_is_refused():
    with pytest.raises(ConfigError) as caught:
        override_policy("Al", ())
    assert caught.value.code == "config.bad_choice"
    assert caught.value.diagnostic.config_path == "connector.client.config.override.policy"
