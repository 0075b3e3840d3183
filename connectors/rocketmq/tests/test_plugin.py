"""The plugin as a whole: its manifest, its words, what it may reach."""

import re
import tomllib
from pathlib import Path

import penstock_rocketmq
import pytest
from penstock_rocketmq import CONNECTORS

from penstock_connector import Source, dead_letters, raw_message_reader
from penstock_connector import messages as kit
from penstock_connector._config import read_config
from penstock_connector._connectors import spec_of

FOLDER = Path(penstock_rocketmq.__file__).parent
REGISTRY = "value.converter.schema.registry.url"
README = (FOLDER.parent / "README.md").read_text(encoding="utf-8")


def test_the_manifest_names_what_is_served():
    manifest = tomllib.loads((FOLDER / "plugin.toml").read_text(encoding="utf-8"))
    listed = {c["name"]: (c["kind"], set(c.get("aliases", ()))) for c in manifest["connector"]}
    served = {
        c.name: ("source" if issubclass(c, Source) else "sink", set(c.aliases)) for c in CONNECTORS
    }
    assert listed == served


def test_every_code_of_an_error_is_in_the_readme():
    sources = "".join(file.read_text(encoding="utf-8") for file in FOLDER.rglob("*.py"))
    modules = (kit, dead_letters, raw_message_reader)
    shared = "".join(Path(one.__file__).read_text(encoding="utf-8") for one in modules)
    codes = set(re.findall(r'"(rocketmq\.[a-z_]+)"', sources))
    codes |= {f"rocketmq.{name}" for name in re.findall(r'f"\{system\}\.([a-z_]+)"', shared)}
    told = set(re.findall(r"rocketmq\.[a-z_]+", README.split("## Errors")[1]))
    assert codes == told


@pytest.mark.parametrize("connector", CONNECTORS, ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"namesrv.addr": "ok.example:9876;evil.example:9876"}, "namesrv.addr"),
        (
            {
                "namesrv.addr": "ok.example:9876",
                "tls.enable": "true",
                "tls.trust.cert.path": "/x",
            },
            "tls.trust.cert.path",
        ),
        (
            {
                "namesrv.addr": "ok.example:9876",
                "value.converter": "avro",
                REGISTRY: "http://evil.example:8081",
            },
            REGISTRY,
        ),
    ],
)
def test_what_is_outside_of_its_reach_is_refused_by_its_key(connector, given, path):
    assert spec_of(connector).enforces_reach
    reach = {"reach.hosts": "ok.example", "reach.folders": "/data"}
    topics = {"topics": "t"} if connector.name == "rocketmq-source" else {}
    _, errors = read_config(connector.config_type, {**topics, **given, **reach})
    assert [error.config_path for error in errors] == [path]


@pytest.mark.parametrize(
    ("more", "code", "path"),
    [
        ({"topics.regex": "x"}, "config.conflict", "topics"),
        ({"topics": ""}, "config.missing", "topics"),
        ({"topics": "", "topics.regex": "("}, "config.bad_pattern", "topics.regex"),
        ({"namesrv.addr": "namesrv"}, "rocketmq.namesrv_addr", "namesrv.addr"),
        ({"namesrv.addr": "a:1;b:99999"}, "rocketmq.namesrv_addr", "namesrv.addr"),
        ({"namesrv.addr": "http://a:1"}, "rocketmq.namesrv_addr", "namesrv.addr"),
        ({"value.converter": "Jason"}, "converter.unknown", "value.converter"),
        ({"access.key": "u"}, "config.missing", "secret.key"),
        ({"secret.key": "u"}, "config.missing", "access.key"),
        ({"tls.trust.cert.path": "/x"}, "config.conflict", "tls.trust.cert.path"),
        ({"tls.check.hostname": "false"}, "config.conflict", "tls.check.hostname"),
        ({"tags": "a || "}, "config.invalid_value", "tags"),
        ({"tags": ""}, "config.invalid_value", "tags"),
        ({"batch.rows": "0"}, "config.invalid_value", "batch.rows"),
        ({"consumer.group": ""}, "config.invalid_value", "consumer.group"),
        ({"consume.from.where": "timestamp"}, "config.missing", "consume.timestamp"),
        ({"consume.timestamp": "20260101000000"}, "config.conflict", "consume.timestamp"),
        (
            {"consume.from.where": "timestamp", "consume.timestamp": "2026-01-01T00:00:00"},
            "config.invalid_value",
            "consume.timestamp",
        ),
    ],
)
def test_what_cannot_be_meant_by_a_source_is_refused(more, code, path):
    given = {"namesrv.addr": "127.0.0.1:1", "topics": "t", **more}
    _, errors = read_config(penstock_rocketmq.RocketmqSource.config_type, given)
    assert [(error.code, error.config_path) for error in errors] == [(code, path)]


@pytest.mark.parametrize(
    ("more", "code", "path"),
    [
        ({"topic": ""}, "config.invalid_value", "topic"),
        ({"topic.queues": "-1"}, "config.invalid_value", "topic.queues"),
        ({"producer.group": ""}, "config.invalid_value", "producer.group"),
        ({"max.message.size": "10"}, "config.invalid_value", "max.message.size"),
        ({"keys.columns": "a", "key.converter": "json"}, "config.conflict", "keys.columns"),
    ],
)
def test_what_cannot_be_meant_by_a_sink_is_refused(more, code, path):
    given = {"namesrv.addr": "127.0.0.1:1", **more}
    _, errors = read_config(penstock_rocketmq.RocketmqSink.config_type, given)
    assert [(error.code, error.config_path) for error in errors] == [(code, path)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-11-26T08:00:00Z", 1_795_680_000_000),
        ("2026-11-26T16:00:00+08:00", 1_795_680_000_000),
        ("timestamp:2026-11-26T16:00:00+08:00", 1_795_680_000_000),
        ("by_duration:PT10S", 90_000),
    ],
)
def test_a_time_has_its_zone(text, wanted, monkeypatch):
    monkeypatch.setattr(penstock_rocketmq.rocketmq_source.time, "time", lambda: 100.0)
    given = {"namesrv.addr": "127.0.0.1:1", "topics": "t", "consume.from.where": "timestamp"}
    config_type = penstock_rocketmq.RocketmqSource.config_type
    config, _ = read_config(config_type, given | {"consume.timestamp": text})
    assert config.timestamp_ms() == wanted
