"""The plugin as a whole: its manifest, its words, what it may reach. And frames, byte by byte."""

import re
import tomllib
from pathlib import Path

import pytest

import penstock_amqp
from penstock_amqp import CONNECTORS, ActivemqSink, ActivemqSource
from penstock_amqp.frames import FrameDecoder, ProtocolError, encode_frame, escape
from penstock_connector import Source, dead_letters, raw_message_reader
from penstock_connector import messages as kit
from penstock_connector._config import compatibility_keys, read_config
from penstock_connector._connectors import spec_of

FOLDER = Path(penstock_amqp.__file__).parent
README = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
GIVEN = {"activemq.url": "stomp://ok.example:61613", "jms.destination.name": "q"}


def test_the_manifest_names_what_is_served():
    manifest = tomllib.loads((FOLDER / "plugin.toml").read_text(encoding="utf-8"))
    listed = {c["name"]: (c["kind"], set(c.get("aliases", ()))) for c in manifest["connector"]}
    served = {
        c.name: ("source" if issubclass(c, Source) else "sink", set(c.aliases)) for c in CONNECTORS
    }
    assert listed == served


def test_every_code_of_an_error_is_in_the_readme():
    sources = "".join(file.read_text(encoding="utf-8") for file in FOLDER.rglob("*.py"))
    kits = (kit, dead_letters, raw_message_reader)
    shared = "".join(Path(one.__file__).read_text(encoding="utf-8") for one in kits)
    codes = set(re.findall(r'"(activemq\.[a-z_]+)"', sources)) - {"activemq.username"}
    codes |= {f"activemq.{name}" for name in re.findall(r'f"\{system\}\.([a-z_]+)"', shared)}
    codes |= {f"activemq.{name}" for name in re.findall(r'f"\{self._system\}\.([a-z_]+)"', shared)}
    told = set(re.findall(r"activemq\.[a-z_]+", README.split("## Errors")[1]))
    assert codes - {"activemq.password"} == told


@pytest.mark.parametrize("connector", CONNECTORS, ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"activemq.url": "failover:(tcp://ok.example,tcp://evil.example)"}, "activemq.url"),
        ({"activemq.url": "stomp+ssl://ok.example", "tls.ca": "/x"}, "tls.ca"),
    ],
)
def test_what_is_outside_of_its_reach_is_refused_by_its_key(connector, given, path):
    assert spec_of(connector).enforces_reach
    reach = {"reach.hosts": "ok.example", "reach.folders": "/data"}
    _, errors = read_config(connector.config_type, {**GIVEN, **given, **reach})
    assert [error.config_path for error in errors] == [path]


@pytest.mark.parametrize(
    ("more", "code", "path"),
    [
        ({"activemq.url": ""}, "config.missing", "activemq.url"),
        ({"activemq.url": "http://a:1"}, "activemq.url", "activemq.url"),
        ({"activemq.url": "stomp://u:p@a:1"}, "activemq.url", "activemq.url"),
        ({"activemq.url": "stomp://a:99999"}, "activemq.url", "activemq.url"),
        ({"activemqUrl": "tcp://a:1"}, "config.conflict", "activemq.url"),
        ({"activemq.password": "x"}, "config.missing", "activemq.username"),
        ({"activemq.username": "a\nb"}, "config.invalid_value", "activemq.username"),
        ({"tls.ca": "/x"}, "config.conflict", "tls.ca"),
        ({"tls.check.hostname": "false"}, "config.conflict", "tls.check.hostname"),
        ({"request.timeout": "0"}, "config.invalid_value", "request.timeout"),
        ({"header.converter": "json"}, "converter.not_for_headers", "header.converter"),
        ({"jms.destination.name": ""}, "config.missing", "jms.destination.name"),
        ({"batch.size": "0"}, "config.invalid_value", "batch.size"),
        ({"max.pending.messages": "0"}, "config.invalid_value", "max.pending.messages"),
        ({"max.poll.duration": "0"}, "config.invalid_value", "max.poll.duration"),
        ({"jms.subscription.durable": "true"}, "config.missing", "jms.subscription.name"),
        ({"jms.subscription.name": "s"}, "config.conflict", "jms.subscription.name"),
        (
            {"jms.subscription.name": "s", "jms.subscription.durable": "true"},
            "config.conflict",
            "jms.subscription.durable",
        ),
        (
            {"jms.message.selector": "a", "messageSelector": "b"},
            "config.conflict",
            "jms.message.selector",
        ),
        ({"character.encoding": "UTF-16"}, "config.not_supported", "character.encoding"),
    ],
)
def test_what_cannot_be_meant_by_a_source_is_refused(more, code, path):
    _, errors = read_config(ActivemqSource.config_type, {**GIVEN, **more})
    assert [(error.code, error.config_path) for error in errors] == [(code, path)]


@pytest.mark.parametrize(
    ("more", "code", "path"),
    [
        ({"message.priority": "10"}, "config.invalid_value", "message.priority"),
        ({"message.ttl": "-1s"}, "config.invalid_value", "message.ttl"),
        ({"max.message.size": "10"}, "config.invalid_value", "max.message.size"),
        ({"transaction.max.rows": "0"}, "config.invalid_value", "transaction.max.rows"),
        ({"jms.message.format": "json"}, "config.not_supported", "jms.message.format"),
        (
            {"jms.forward.kafka.metadata": "true"},
            "config.not_supported",
            "jms.forward.kafka.metadata",
        ),
    ],
)
def test_what_cannot_be_meant_by_a_sink_is_refused(more, code, path):
    _, errors = read_config(ActivemqSink.config_type, {**GIVEN, **more})
    assert [(error.code, error.config_path) for error in errors] == [(code, path)]


def test_keys_of_peers_without_effect_have_a_word():
    names = ("confluent.license", "confluent.topic.replication.factor", "sessionTransacted")
    found = compatibility_keys(ActivemqSource.config_type, {**GIVEN, **dict.fromkeys(names, "1")})
    assert set(found) == set(names)
    assert all(one.why and not one.refused for one in found.values())
    config, _ = read_config(
        ActivemqSource.config_type, {**GIVEN, "activemq.url": "failover:(tcp://a)?randomize=true"}
    )
    assert set(config.unused_keys()) == {"activemq.url"}


def test_a_password_is_not_shown():
    given = {**GIVEN, "activemq.username": "u", "activemq.password": "s3cret"}
    config, _ = read_config(ActivemqSource.config_type, given)
    assert "s3cret" not in repr(config)
    assert "s3cret" not in repr(config.dialing())


def test_frames_come_in_pieces():
    data = (
        b"\n\nMESSAGE\nmessage-id:1\nname:a\\cb\\n\\\\n\ncontent-length:3\n\na\x00b\x00\n"
        b"RECEIPT\r\nreceipt-id:2\r\nreceipt-id:3\r\n\r\n\x00"
    ).replace(b"\\\\n\n", b"\\\\\n")
    decoder = FrameDecoder()
    frames = [one for at in range(len(data)) for one in decoder.feed(data[at : at + 1])]
    assert frames == FrameDecoder().feed(data)
    first, second = frames
    assert (first.headers["name"], first.body) == ("a:b\n\\", b"a\x00b")
    assert (second.command, second.headers["receipt-id"]) == ("RECEIPT", "2")


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x00\x00\x01\x2e\x01ActiveMQ",
        b"MESSAGE\nno header\n\n\x00",
        b"MESSAGE\ncontent-length:x\n\n\x00",
        b"MESSAGE\ncontent-length:99999999999\n\n",
        b"MESSAGE\ncontent-length:1\n\nab\x00",
        b"MESSAGE\na:" + b"x" * (2 << 20),
    ],
)
def test_bytes_that_are_no_frames_are_refused(data):
    with pytest.raises(ProtocolError):
        FrameDecoder().feed(data)


def test_headers_are_escaped_but_those_of_connect():
    assert escape("a:b\r\n\\") == b"a\\cb\\r\\n\\\\"
    assert encode_frame("CONNECT", {"passcode": "a:b"}) == b"CONNECT\npasscode:a:b\n\n\x00"
    assert encode_frame("ACK", {"id": "ID:1"}) == b"ACK\nid:ID\\c1\n\n\x00"
