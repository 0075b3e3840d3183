"""Which settings of Kafka's clients a connector may set."""

import asyncio
import logging
import tempfile
from pathlib import Path

import pytest

from penstock.model.config_def import parse
from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError, Severity
from penstock.plugin.catalog.registry import PluginPath
from penstock.plugin.host import PluginHost
from penstock.secrets.resolution import NO_SECRETS
from penstock.worker.admin.connector_plugins import Validator
from penstock.worker.config.broker_topics import BrokerTopics
from penstock.worker.config.client_overrides import (
    TUNING,
    OverridePolicy,
    override_policy,
    unused_override,
)
from penstock.worker.config.reach import ConnectorBounds
from penstock.worker.config.resolved_config import WorkerContext
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


NODE = {
    "bootstrap.servers": "127.0.0.1:1", "producer.linger.mss": "1", "producer.acks": "all",
    "producer.linger.ms": "5", "consumer.linger.ms": "5",
}  # fmt: skip


def validate(*configs, node=NODE):
    """Return what is told of connectors of one worker, whose brokers are not asked."""

    async def run(runtime):
        host = PluginHost(PluginPath(()), Path(runtime) / "p")
        bounds = ConnectorBounds(OverridePolicy("All", None))
        validator = Validator(
            WorkerContext(host, NO_SECRETS, bounds, (), BrokerTopics("kafka", node))
        )
        source = {"connector.class": "file-source", "file": "/none", "topic": "t"}
        found = [
            (
                await validator.validate(Connector("c", source | one, ConnectorKind.SOURCE))
            ).diagnostics
            for one in configs
        ]
        await host.close(1.0)
        return found

    with tempfile.TemporaryDirectory() as runtime:  # sockets want short paths
        return asyncio.run(run(runtime))


def test_a_key_of_the_worker_without_effect_is_logged_once_and_told_to_no_connector(caplog):
    with caplog.at_level(logging.WARNING):
        found = validate({}, {})
    assert found == [(), ()]
    told = [one.getMessage() for one in caplog.records if "key of the worker" in one.message]
    assert sorted(one.partition("`")[2].partition("`")[0] for one in told) == [
        "producer.acks", "producer.linger.mss",
    ]  # fmt: skip


def test_a_key_of_the_connector_that_no_client_has_is_a_warning():
    (found,) = validate({"producer.override.linger.mss": "1"})
    assert [(one.code, one.severity, one.config_path) for one in found] == [
        ("config.no_effect", Severity.WARNING, "producer.override.linger.mss")
    ]
    assert "`producer.override.linger.mss`" in found[0].message


def test_a_wrong_value_of_the_worker_is_an_error_of_every_connector():
    for found in validate({}, {}, node=NODE | {"producer.linger.ms": "soon"}):
        assert [(one.code, one.config_path) for one in found] == [
            ("config.invalid_value", "producer.linger.ms")
        ]
