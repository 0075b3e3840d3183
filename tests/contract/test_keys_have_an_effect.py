"""Nothing that a user sets is silently ignored: every key is read by what it is for, or a warning
or an error names it.

Keys of the framework are set one by one, and what comes of them is compared. Of a transform, a
predicate and a converter it is seen which values its making reads. Of connectors and services, the
code is searched for what reads a key: one that nothing reads can have no effect.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import penstock_kafka.__main__ as kafka
import penstock_rocketmq.__main__ as rocketmq
import pytest

import penstock_builtin.__main__ as builtin
import penstock_databases.__main__ as databases
import penstock_messaging.__main__ as messaging
import penstock_net.__main__ as net
from penstock.cluster.keys import KEYS as OF_CLUSTER
from penstock.connector_config import settings as worker_settings
from penstock.connector_config.keys import KAFKA_CONNECT_KEYS, OVERRIDE_PREFIXES, PLUGIN_KEYS
from penstock.connector_config.keys import KEYS as FRAMEWORK
from penstock.connector_config.sections import (
    check_keys_without_effect,
    split_config,
    unused_key_warning,
)
from penstock.connector_config.settings import read_settings
from penstock.model.config_def import ConfigKey, parse_with_errors
from penstock.model.connector import ConnectorKind
from penstock.model.errors import PenstockError
from penstock.model.topic import TopicSelection
from penstock.scheduler.state.desired_state import parse_task_rules
from penstock.secrets import provider_settings as secrets_settings
from penstock.standalone.settings import KEYS as OF_NODE
from penstock.transform.configuration import find_chain_warnings
from penstock.transform.registry import PREDICATES_BY_NAME, TRANSFORMS_BY_NAME
from penstock.worker.config.client_overrides import TUNING, OverridePolicy, unused_override
from penstock_connector._config import keys_of
from penstock_converters.registry import KINDS as CONVERTERS
from support.checkout import ROOT

SERVICES = ROOT / "services" / "penstock"
CONNECTORS = ROOT / "connectors"

KINDS = (ConnectorKind.SOURCE, ConnectorKind.SINK, ConnectorKind.PIPELINE)

SAMPLES = {
    "errors.tolerance": "all",
    "placement": "zone=a",
    "topics": "a,b",
    "topics.regex": "a.*",
    "tasks.min": "2",
    "replay.letters": "0/1-3",
    "replay.edits": '{"0/1": {"a": 1}}',
    "schema.evolution.include": "widen",
    "schema.evolution.exclude": "widen",
}
"""Values that are no defaults, of keys whose type alone does not tell one."""

OF_TYPES = {
    "int": "17",
    "double": "1.5",
    "boolean": "true",
    "duration": "17s",
    "size": "17MiB",
    "list": "a",
    "string": "a",
    "password": "a",
}


def sample(key: ConfigKey) -> str:
    """Return a value of a key that is not its default."""
    if key.name in SAMPLES:
        return SAMPLES[key.name]
    if key.choices:
        return next(choice for choice in key.choices if choice != key.default)
    return "false" if key.default is True else OF_TYPES[key.type]


def comes_of(config: Mapping[str, str], kind: ConnectorKind) -> tuple[object, set[str]]:
    """Return what the framework makes of a configuration, and the keys that are told of."""
    parts = split_config(config, kind)
    settings, found = read_settings(parts.framework)
    found += check_keys_without_effect(parts, settings, kind)
    pattern = settings.topics.pattern
    topics = (settings.topics.names, pattern and pattern.text)
    made = dataclasses.replace(settings, topics=TopicSelection())
    return (made, topics, parse_task_rules(config)), {one.config_path for one in found}


def without_use(keys: Iterable[ConfigKey]) -> list[str]:
    """Return the keys of connectors, with their kind, that change nothing and are not told of."""
    found = []
    for kind in KINDS:
        ends = ("source.", "sink.") if kind is ConnectorKind.PIPELINE else ("",)
        base = {f"{end}connector.class": "x" for end in ends} | {"name": "orders"}
        before, _ = comes_of(base, kind)
        for key in keys:
            if key.name in {"name", *PLUGIN_KEYS}:
                continue  # these say which connector and plugin it is
            after, told = comes_of({**base, key.name: sample(key)}, kind)
            if after == before and key.name not in told:
                found.append(f"{kind.name}: {key.name}")
    return found


def test_every_key_of_the_framework_has_an_effect_or_is_told_of() -> None:
    assert without_use(FRAMEWORK) == []


def test_a_key_of_the_framework_without_a_reader_goes_red(monkeypatch: pytest.MonkeyPatch) -> None:
    more = ConfigKey("flush.never", doc="Read by nothing.")
    monkeypatch.setattr(worker_settings, "KEYS", (*FRAMEWORK, more))
    monkeypatch.setattr("penstock.connector_config.sections.FRAMEWORK_KEYS", {more.name, "name"})
    assert without_use([more]) == [f"{kind.name}: flush.never" for kind in KINDS]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"tasks.min": "2"}, "tasks.min"),
        ({"lag.target": "5s"}, "lag.target"),
        ({"errors.skip": "true"}, "errors.skip"),
        ({"errors.log.include.messages": "true"}, "errors.log.include.messages"),
        ({"topics": "a"}, "topics"),
        ({"flush.interval": "1s", "flush.busy.interval": "1s"}, "flush.busy.interval"),
        ({"restart.delay": "0"}, "restart.delay"),
        ({"restart.delay": "20s", "restart.delay.max": "10s"}, "restart.delay.max"),
        ({"errors.deadletterqueue.topic.replication.factor": "1"}, None),
    ],
)
def test_the_warning_about_a_key_without_effect_says_why(
    config: dict[str, str], told: str | None
) -> None:
    parts = split_config({"connector.class": "x", **config}, ConnectorKind.SOURCE)
    settings, _ = read_settings({"name": "orders", **parts.framework})
    (found,) = check_keys_without_effect(parts, settings, ConnectorKind.SOURCE)
    assert found.code == "config.no_effect"
    assert found.config_path == (told or next(iter(config)))
    assert found.fix


@pytest.mark.parametrize(
    "config",
    [
        {"tasks.min": "2", "tasks.max": "4", "lag.target": "5s"},
        {"errors.tolerance": "all", "errors.skip": "true"},
        {"errors.tolerance": "all", "errors.log.enable": "true"},
        {"restart.delay": "2s", "restart.delay.max": "2s"},
        {"restart.delay": "5m"},
        {"topic": "orders", "topic.partitions": "3", "topic.retention": "1h"},
    ],
)
def test_keys_that_count_together_are_not_warned_about(config: dict[str, str]) -> None:
    parts = split_config({"connector.class": "x", **config}, ConnectorKind.SOURCE)
    settings, _ = read_settings({"name": "orders", **parts.framework})
    assert check_keys_without_effect(parts, settings, ConnectorKind.SOURCE) == []


FOREIGN_KEYS = (
    "key.converter",
    "value.converter.schemas.enable",
    "value.converter.plugin.version",
    "header.converter.plugin.version",
    "offsets.storage.topic",
    "tasks.max.enforce",
    "task.class",
    "task.type",
    "task.group.id",
    "consume.from.where",
    "ordering.msg.enable",
    "errors.deadletterqueue.read.queue.nums",
    "errors.deadletterqueue.write.queue.nums",
    "errors.deadletterqueue.context.properties.enable",
    "topic.creation.groups",
    "topic.creation.default.replication.factor",
    "topic.creation.default.partitions",
)


def test_every_key_of_kafka_connect_without_effect_is_told_of() -> None:
    assert {
        start for start in KAFKA_CONNECT_KEYS if not any(k.startswith(start) for k in FOREIGN_KEYS)
    } == set()
    for key in FOREIGN_KEYS:
        parts = split_config({"connector.class": "x", key: "1"}, ConnectorKind.SOURCE)
        settings, _ = read_settings({"name": "orders", **parts.framework})
        (found,) = check_keys_without_effect(parts, settings, ConnectorKind.SOURCE)
        assert (found.code, found.config_path) == ("config.not_here_yet", key)
        assert found == unused_key_warning(key)
        assert f"`{key}` has no effect here: " in found.message


def test_every_setting_of_a_client_of_kafka_is_told_of() -> None:
    keys = [
        f"{prefix}{setting}"
        for prefix in OVERRIDE_PREFIXES
        for setting in (*TUNING, "ssl.key.password")
    ]
    policy = OverridePolicy()
    refused = policy.check(keys)
    warned = [unused_override(key) for key in keys if policy.allows(key)]
    assert {one.config_path for one in (*refused, *warned)} == set(keys)


class Recorded(dict[str, Any]):
    """Values that take note of which of them are read."""

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        self.seen: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)


WITH: Mapping[str, Mapping[str, Any]] = {
    "Cast": {"spec": ("a:int8",)},
    "ExtractNestedField": {"input.outer.field.name": "a"},
    "HeaderFrom": {"fields": ("a",), "headers": ("b",)},
    "TimestampConverter": {"target.type": "unix"},
}
"""Values without which the making of a transform does not come to all of its keys."""


def read_by(make: Any, keys: Iterable[ConfigKey], fixed: Mapping[str, str]) -> set[str]:
    """Return the keys that are read when a thing is made: with all defaults, and with each of its
    keys set. What is made may refuse its configuration.
    """
    needed = {key.name: sample(key) for key in keys if key.required}
    defaults, _ = parse_with_errors(keys, needed)
    seen: set[str] = set()
    for key in (None, *keys):
        given = {} if key is None else {key.name: sample(key)}
        values = Recorded({**defaults, **parse_with_errors(keys, needed | given)[0], **fixed})
        with contextlib.suppress(PenstockError):
            make(values)
        seen |= values.seen
    return seen


def told_of(section: str, type_: str, key: ConfigKey) -> bool:
    """Return whether a warning names a key of a member of a chain."""
    name = f"{section}.a.{key.name}"
    config = {section: "a", f"{section}.a.type": type_, name: sample(key)}
    return name in {one.config_path for one in find_chain_warnings(config)}


@pytest.mark.parametrize(
    ("section", "name"),
    [
        *(("transforms", kind.names[0]) for kind in dict.fromkeys(TRANSFORMS_BY_NAME.values())),
        *(("predicates", kind.names[0]) for kind in dict.fromkeys(PREDICATES_BY_NAME.values())),
    ],
)
def test_every_key_of_a_transform_has_an_effect_or_is_told_of(section: str, name: str) -> None:
    kind: Any = {**TRANSFORMS_BY_NAME, **PREDICATES_BY_NAME}[name]
    fixed = WITH.get(name.removesuffix("$Key"), {})
    seen = read_by(lambda values: kind.build("x", values), kind.keys, fixed)
    unread = [key for key in kind.keys if key.name not in seen]
    assert [key.name for key in unread if not told_of(section, name, key)] == []
    assert told_of(section, name, ConfigKey("plugin.version"))


def test_a_key_of_a_transform_that_is_not_read_goes_red() -> None:
    keys = (ConfigKey("a"), ConfigKey("b"))
    assert read_by(lambda values: values["a"], keys, {}) == {"a"}


def test_the_members_that_a_chain_does_not_list_are_told_of() -> None:
    config = {
        "transforms": "a",
        "transforms.a.type": "Filter",
        "transforms.a.condition": "true",
        "transforms.b.type": "Filter",
        "transforms.b.condition": "false",
    }
    (found,) = find_chain_warnings(config)
    assert (found.code, found.config_path) == ("config.no_effect", "transforms.b")


APICURIO = "apicurio.registry.url"
LOGINS: Sequence[Mapping[str, str]] = (
    {},
    {
        "basic.auth.credentials.source": "SASL_INHERIT",
        "sasl.jaas.config": 'a.PlainLoginModule required username="u" password="p";',
    },
    {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.issuer.endpoint.url": "http://localhost:1",
        "bearer.auth.client.id": "c",
        "bearer.auth.client.secret": "s",
    },
)
"""Ways to log in at a registry: each has keys of its own."""


@pytest.mark.parametrize("kind", CONVERTERS, ids=lambda kind: kind.names[0])
def test_every_key_of_a_converter_has_an_effect(kind: Any) -> None:
    seen: set[str] = set()
    ways = [{"schema.registry.url": "http://localhost:1", **login} for login in LOGINS]
    if any(key.name == APICURIO for key in kind.keys):
        ways.append({APICURIO: "http://localhost:1/apis/registry/v3"})
    for way in ways:
        config = Recorded(way)
        kind.create(config, False)
        seen |= config.seen
    assert {key.name for key in kind.keys} <= seen


def trees(folder: Path) -> Iterator[ast.AST]:
    """Yield the syntax of the modules below a folder, without what is generated."""
    for path in sorted(folder.rglob("*.py")):
        if "api" not in path.relative_to(folder).parts[:1]:
            yield ast.parse(path.read_text(encoding="utf-8"))


def texts_read(folder: Path) -> set[str]:
    """Return every text of the code that is not the name in a definition of a key; of one with
    parts in it, a pattern.
    """
    found: set[str] = set()
    for tree in trees(folder):
        names: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ConfigKey":
                names |= {id(one) for one in [*node.args[:1], *ast.walk(node.args[0])]}
            elif isinstance(node, ast.JoinedStr) and id(node) not in names:
                parts = [
                    re.escape(part.value) if isinstance(part, ast.Constant) else "[a-z.]+"
                    for part in node.values
                ]
                found.add("".join(map(str, parts)))
                names |= {id(part) for part in node.values}
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in names
            ):
                found.add(re.escape(node.value))
    return found


def unread_texts(keys: Iterable[ConfigKey], texts: set[str]) -> list[str]:
    """Return the names of keys that are none of these texts."""
    whole = re.compile("|".join(text for text in texts if re.match("[a-z]{2}", text)))
    return sorted({key.name for key in keys if not whole.fullmatch(key.name)})


@pytest.fixture(scope="module")
def service_texts() -> set[str]:
    """The texts of the services."""
    return texts_read(SERVICES)


def test_every_key_of_a_service_is_read(service_texts: set[str]) -> None:
    of_secrets = (key for keys in secrets_settings.KEYS.values() for key in keys)
    of_services = (key for keys in OF_CLUSTER.values() for key in keys)
    assert unread_texts((*OF_NODE, *of_services, *of_secrets), service_texts) == []
    assert unread_texts([ConfigKey("never.read")], service_texts) == ["never.read"]


PLUGINS: Mapping[str, Any] = {
    "builtin": builtin,
    "databases": databases,
    "kafka": kafka,
    "rocketmq": rocketmq,
    "net": net,
    "messaging": messaging,
}


@pytest.fixture(scope="module")
def attributes() -> Mapping[str, set[str]]:
    """The attributes that the code of each plugin reads, or a kit of the SDK for it."""
    kits = CONNECTORS / "python" / "penstock_connector"
    return {
        name: {
            node.attr
            for folder in (CONNECTORS / name / f"penstock_{name}", kits)
            for tree in trees(folder)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        }
        for name in PLUGINS
    }


@pytest.mark.parametrize(
    ("plugin", "connector"),
    [(name, one) for name, module in PLUGINS.items() for one in module.CONNECTORS],
    ids=lambda one: getattr(one, "name", one),
)
def test_every_key_of_a_connector_is_read(
    plugin: str, connector: Any, attributes: Mapping[str, set[str]]
) -> None:
    keys = keys_of(connector.config_type).values()
    warned = {key.attribute for key in keys if key.meta.no_effect or len(key.choices) == 1}
    assert {key.attribute for key in keys} - attributes[plugin] - warned == set()
    assert {"never_read"} - attributes[plugin] == {"never_read"}
