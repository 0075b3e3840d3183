"""Converters of plugins: who may name them, and what the plugin that calls them is told."""

import asyncio
import json
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.model.connector import Connector, ConnectorKind, Target
from penstock.model.errors import ConfigError, Diagnostic, ErrorClass, PenstockError
from penstock.plugin.catalog.manifest import Kind
from penstock.plugin.responses import ConnectorSpec
from penstock.secrets.resolution import NO_SECRETS
from penstock.worker.admin.connector_plugins import Validator
from penstock.worker.config.broker_topics import BrokerTopics
from penstock.worker.config.plugin_converters import acquire_converters, validate_converters
from penstock.worker.config.plugin_transforms import attach_plugins, build_connector_chain
from penstock.worker.config.reach import NO_RULES, ConnectorBounds, read_reach_rules
from penstock.worker.config.resolved_config import WorkerContext, acquire_plugin, resolve_config
from penstock_converters import InvalidConverterError
from penstock_converters.registry import create_converter

KINDS = {
    "x": Kind.SOURCE, "kafka-sink": Kind.SINK, "kafka-source": Kind.SOURCE, "file-sink": Kind.SINK,
    "com.acme.Lines": Kind.CONVERTER,
}  # fmt: skip
NODE = {
    "bootstrap.servers": "b:9092",
    "value.converter": "com.acme.Lines",
    "value.converter.end": "!",
    "value.converter.login.password": "S3CRET",
    "value.converter.plugin.version": "1.*",
}


def unknown_converter(name: str) -> Diagnostic:
    """What a plugin says that opens its converters: the worker says it, too."""
    with pytest.raises(InvalidConverterError) as caught:
        create_converter(name, {})
    error = caught.value
    path = "value.converter"
    return ConfigError(error.code, error.message, fix=error.fix, config_path=path).diagnostic


class Host:
    """Plugins of `KINDS`; each has one process."""

    def __init__(self, *, enforces: bool = True, remote: tuple[str, ...] = ()):
        self.enforces, self.remote, self.in_use = enforces, remote, 0
        self.redacted: dict[str, list[str]] = {name: [] for name in KINDS}
        self.asked: list[tuple[str, str]] = []
        self.told: dict[str, Target] = {}

    def find(self, name: str, version: str = ""):
        if name not in KINDS:
            raise ConfigError("plugin.not_installed", name, config_path="connector.class")
        if version == "2.*":
            path = "connector.plugin.version"
            raise ConfigError("plugin.no_such_version", name, config_path=path)
        return None, SimpleNamespace(kind=KINDS[name], name=name, own_keys=())

    isolation = "shared"

    async def acquire(self, name: str, version: str = "", task: str = "", owner: str = ""):
        self.asked.append((name, version))

        async def validate(target):
            self.told[name] = target
            wrong = Diagnostic("lines.no", "m", ErrorClass.CONFIG, config_path="end")
            found = (wrong,) if KINDS[name] is Kind.CONVERTER else ()
            if target.config.get("value.converter") == "nobodys":
                found = (unknown_converter("nobodys"),)
            return SimpleNamespace(values=(), diagnostics=found)

        timer = SimpleNamespace(begin_use=lambda: self._use(1), end_use=lambda: self._use(-1))
        source = SimpleNamespace(replayable=True)
        return SimpleNamespace(
            spec=ConnectorSpec(name, KINDS[name], enforces_reach=self.enforces, source=source),
            connector="lines" if name == "com.acme.Lines" else name,
            connection=SimpleNamespace(
                redact=SimpleNamespace(add_secrets=self.redacted[name].extend), idle_timer=timer
            ),
            is_remote=name in self.remote, name=f"p/{name}", plugin="p",
            address="unix:/s", credential="cred", dial_info={}, validate=validate,
        )  # fmt: skip

    def _use(self, change: int) -> None:
        self.in_use += change


def resolved(host, kind=ConnectorKind.SOURCE, rules=NO_RULES, node=NODE, **config):
    given = {"connector.class": "x"} | {k.replace("__", "."): v for k, v in config.items()}
    connector = Connector("c", given, kind)
    brokers = BrokerTopics("kafka" if node else "embedded", node)
    bounds = ConnectorBounds(reach=rules)
    return asyncio.run(resolve_config(host, NO_SECRETS, connector, bounds, brokers))


def target_of(host: Any, made, role="sink"):
    return asyncio.run(acquire_plugin(host, made, role))[1]


def error_of(host: Any, made, role="sink"):
    with pytest.raises(PenstockError) as caught:
        target_of(host, made, role)
    return caught.value.code, caught.value.diagnostic.config_path


def test_the_plugin_at_the_topics_end_is_told_where_the_converter_is():
    host: Any = Host()
    target = target_of(host, resolved(host))
    assert target.config["value.converter"] == "com.acme.Lines"
    assert not any(key.startswith("value.converter.") for key in target.config)
    told = json.loads(target.secrets["value.converter.penstock.process"])
    assert told == {
        "address": "unix:/s", "credential": "cred", "connector": "lines", "instance": "c",
        "config": {"end": "!", "login.password": "S3CRET"}, "timeout_s": 60.0, "tls": None,
    }  # fmt: skip
    assert host.asked[-1] == ("com.acme.Lines", "1.*")
    for name in ("com.acme.Lines", "kafka-sink"):  # the converter's words go through the caller
        assert host.redacted[name] == ["S3CRET", "cred"]
    assert "cred" not in repr(target)


def test_converters_that_ship_are_not_looked_up():
    host: Any = Host()
    target = target_of(host, resolved(host, value__converter="json"))
    assert target.secrets == {}
    assert [name for name, _ in host.asked] == ["kafka-sink"]


def test_a_pipeline_names_them_at_its_end():
    host: Any = Host()
    keys = {"sink__value__converter": "com.acme.Lines", "sink__value__converter__end": "?"}
    ends = {"source__connector__class": "x", "sink__connector__class": "kafka-sink"}
    made = resolved(host, ConnectorKind.PIPELINE, connector__class="", **ends, **keys)
    told = json.loads(target_of(host, made).secrets["value.converter.penstock.process"])
    assert told["config"] == {"end": "?"}
    wrong = {**ends, **keys, "sink__value__converter__plugin__version": "2.*"}
    made = resolved(host, ConnectorKind.PIPELINE, connector__class="", **wrong)
    assert error_of(host, made) == (
        "plugin.no_such_version", "sink.value.converter.plugin.version",
    )  # fmt: skip


def test_what_is_no_converter_is_left_to_the_plugin():
    host: Any = Host()
    for name in ("file-sink", "nobodys"):
        target = target_of(host, resolved(host, value__converter=name))
        assert target.config["value.converter"] == name
        assert target.secrets == {}


@pytest.mark.parametrize(
    "key", ["value__converter__penstock__process", "source__key__converter__penstock__process"]
)
def test_no_user_says_where_a_process_is(key):
    with pytest.raises(ConfigError) as caught:
        resolved(Host(), **{key: "{}"})
    assert caught.value.code == "converter.reserved"
    assert caught.value.diagnostic.config_path == key.replace("__", ".")


def test_a_converter_keeps_to_what_its_connector_may_reach():
    rules = read_reach_rules(
        ["a"],
        {"reach.a.connectors": ".*", "reach.a.folders": "/data", "reach.a.topics": "*",
         "reach.a.hosts": "*"},
    )  # fmt: skip
    host: Any = Host()
    told = target_of(host, resolved(host, rules=rules)).secrets["value.converter.penstock.process"]
    assert json.loads(told)["config"]["reach.folders"] == "/data"
    host = Host(enforces=False)
    assert error_of(host, resolved(host, rules=rules)) == ("reach.plugin", "value.converter")


def test_a_caller_elsewhere_needs_a_converter_elsewhere():
    host: Any = Host(remote=("kafka-sink",))
    assert error_of(host, resolved(host)) == ("converter.unreachable", "value.converter")
    both: Any = Host(remote=("kafka-sink", "com.acme.Lines"))
    assert target_of(both, resolved(both)).secrets


def diagnostics_of(host: Any, node):
    context = WorkerContext(host, brokers=BrokerTopics("kafka", node))
    connector = Connector("c", {"connector.class": "x", "topic": "t"}, ConnectorKind.SOURCE)
    found = asyncio.run(Validator(context).validate(connector)).diagnostics
    return [(one.code, one.config_path) for one in found]


def test_one_mistake_is_told_once():
    node = {"bootstrap.servers": "b:9092", "value.converter": "nobodys"}
    assert diagnostics_of(Host(), node) == [("converter.unknown", "value.converter")]


def test_its_plugin_says_what_is_wrong_with_its_keys():
    host: Any = Host()
    found = asyncio.run(
        validate_converters(host, resolved(host).target("sink"), resolved(host).reach)
    )
    assert [one.config_path for one in found] == ["value.converter.end"]
    assert host.told["com.acme.Lines"].secrets == {"login.password": "S3CRET"}
    assert diagnostics_of(host, NODE) == [("lines.no", "value.converter.end")]


def test_a_plugin_converts_no_headers():
    host: Any = Host()
    node = {"bootstrap.servers": "b:9092", "header.converter": "com.acme.Lines"}
    assert diagnostics_of(host, node) == [("converter.plugin", "header.converter")]


def test_its_process_is_kept_for_the_run():
    host: Any = Host()
    made = resolved(host)
    chain = build_connector_chain(host, made, ())
    _, keep_alive = asyncio.run(attach_plugins(host, chain, made, lambda *_: None))
    with suppress(KeyError), keep_alive:
        assert host.in_use == 1
        raise KeyError
    assert host.in_use == 0
    target = resolved(host, node={}).target("source")
    assert asyncio.run(acquire_converters(host, [target])) == []
