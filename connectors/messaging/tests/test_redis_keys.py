"""Keys of Redis's connectors: what is refused, what has no effect, logins, TLS, what a node
allows.
"""

import pytest

from penstock_connector._config import compatibility_keys, parse_config, read_config
from penstock_connector._connectors import spec_of
from penstock_connector.testing import RemoteError, sink_task, source_task, validate
from penstock_messaging import RedisSink, RedisSource
from support.certificates import Authority
from support.redis_server import PASSWORD, RedisServer

SOURCE = {"redis.uri": "redis://server", "redis.stream.name": "a"}
SINK = {"redis.uri": "redis://server"}
BOTH = pytest.mark.parametrize("connector", [RedisSource, RedisSink])


def base(connector):
    return SOURCE if connector is RedisSource else SINK


def found(connector, config, **told):
    """What is found of a configuration: codes and keys."""
    reach = {"reach.folders": told.get("folders", "*"), "reach.hosts": told.get("hosts", "*")}
    _, errors = read_config(connector.config_type, {**config, **reach})
    return [(error.code, error.config_path) for error in errors]


@pytest.mark.parametrize(
    ("connector", "more", "code", "path"),
    [
        (RedisSource, {"redis.uri": "server:6379"}, "invalid_value", "redis.uri"),
        (RedisSource, {"redis.uri": "redis://"}, "invalid_value", "redis.uri"),
        (RedisSource, {"redis.uri": "redis://server/a"}, "invalid_value", "redis.uri"),
        (RedisSource, {"redis.uri": "redis://server:x"}, "invalid_value", "redis.uri"),
        (RedisSource, {"redis.uri": "unix:///"}, "invalid_value", "redis.uri"),
        (RedisSource, {"redis.uri": "redis://u:p@server"}, "invalid_value", "redis.uri"),
        (RedisSource, {"redis.username": "u"}, "conflict", "redis.username"),
        (RedisSource, {"redis.cacert": "/ca"}, "conflict", "redis.cacert"),
        (RedisSource, {"redis.key.cert": "/c"}, "conflict", "redis.key.file"),
        (RedisSource, {"redis.timeout": "0s"}, "invalid_value", "redis.timeout"),
        (RedisSource, {"max.retry.time.ms": "0"}, "invalid_value", "max.retry.time.ms"),
        (RedisSource, {"redis.stream.pattern": "b*"}, "conflict", "redis.stream.name"),
        (RedisSource, {"redis.stream.name": ""}, "missing", "redis.stream.name"),
        (RedisSource, {"redis.stream.offset": "first"}, "invalid_value", "redis.stream.offset"),
        (RedisSource, {"redis.stream.lost": "skip"}, "invalid_choice", "redis.stream.lost"),
        (RedisSource, {"redis.id.column": "__id"}, "invalid_value", "redis.id.column"),
        (RedisSource, {"topic": ""}, "invalid_value", "topic"),
        (RedisSource, {"batch.rows": "0"}, "invalid_value", "batch.rows"),
        (RedisSource, {"redis.entry": "json"}, "invalid_choice", "redis.entry"),
        (RedisSink, {"redis.command": "LPUSH"}, "invalid_choice", "redis.command"),
        (RedisSink, {"redis.key": ""}, "invalid_value", "redis.key"),
        (RedisSink, {"redis.key": "${key}${key}"}, "invalid_value", "redis.key"),
        (RedisSink, {"redis.ledger.prefix": ""}, "invalid_value", "redis.ledger.prefix"),
        (RedisSink, {"redis.stream.maxlen": "-1"}, "invalid_value", "redis.stream.maxlen"),
        (
            RedisSink,
            {"redis.stream.maxlen": "9", "redis.command": "SET"},
            "conflict",
            "redis.stream.maxlen",
        ),
        (RedisSink, {"redis.wait.replicas": "-1"}, "invalid_value", "redis.wait.replicas"),
        (RedisSink, {"redis.wait.timeout": "60000"}, "conflict", "redis.wait.timeout"),
        (
            RedisSink,
            {"redis.uri": "rediss://h", "redis.insecure": "true", "redis.cacert": "/ca"},
            "conflict",
            "redis.insecure",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(connector, more, code, path):
    assert found(connector, base(connector) | more) == [(f"config.{code}", path)]
    assert found(connector, base(connector)) == []


def test_a_password_in_an_address_is_not_shown():
    for uri in ("redis://u:pw1@server", "redis://:pw1@server", "redis://u:pw1@server:port"):
        _, errors = read_config(RedisSource.config_type, SOURCE | {"redis.uri": uri})
        assert "pw1" not in str(errors[0])
    config = parse_config(RedisSource.config_type, SOURCE | {"redis.password": "pw1"})
    assert "pw1" not in repr(config)


@pytest.mark.parametrize(
    ("connector", "more", "told"),
    [
        (RedisSource, {"value.converter": "string"}, {"value.converter"}),
        (RedisSource, {"redis.insecure": "true"}, {"redis.insecure"}),
        (RedisSource, {"redis.key.password": "x"}, {"redis.key.password"}),
        (RedisSink, {"key.converter": "json"}, {"key.converter"}),
        (RedisSink, {"key.converter": "json", "redis.key": "${key}"}, set()),
        (RedisSink, {"redis.command": "SET", "redis.entry": "message"}, {"redis.entry"}),
        (RedisSink, {"redis.command": "SET", "header.converter": "json"}, {"header.converter"}),
        (RedisSink, {"redis.command": "HSET", "value.converter": "string"}, {"value.converter"}),
        (RedisSink, {"redis.separator": "/"}, {"redis.separator"}),
        (RedisSink, {"redis.separator": "/", "redis.command": "SET"}, set()),
        (RedisSink, {"redis.wait.timeout": "5"}, {"redis.wait.timeout"}),
    ],
)
def test_keys_without_an_effect_have_a_word_about_it(connector, more, told):
    config = parse_config(connector.config_type, base(connector) | more)
    assert set(config.unused_keys()) == told


def test_configurations_of_the_kafka_connector_of_redis_are_valid_or_told_what_to_write():
    source = SOURCE | {
        "redis.stream.offset": "0-0", "topic": "redis_${stream}", "redis.stream.block": "100",
        "redis.stream.delivery": "at-least-once", "redis.stream.consumer.group": "g",
        "redis.stream.consumer.name": "consumer-${task}", "redis.pool": "8", "redis.timeout": "60",
        "redis.cluster": "false", "redis.tls": "false", "redis.insecure": "false",
    }  # fmt: skip
    sink = SINK | {
        "redis.command": "HSET", "redis.key": "${topic}", "redis.separator": ":",
        "redis.multiexec": "true", "redis.wait.replicas": "0", "redis.charset": "UTF-8",
    }  # fmt: skip
    for connector, theirs in ((RedisSource, source), (RedisSink, sink)):
        assert "com.redis.kafka.connect." in connector.aliases[1]
        assert set(validate(connector, theirs)) == {"config.no_effect"}
    assert parse_config(RedisSource.config_type, source).redis_timeout == 60
    assert parse_config(RedisSource.config_type, source).dataset("s") == "redis_s"
    assert parse_config(RedisSink.config_type, sink).template("orders") == "orders:${key}"
    refused = {
        "redis.host": "h", "redis.port": "1", "redis.tls": "true", "redis.cluster": "true",
        "redis.charset": "latin-1",
    }  # fmt: skip
    known = compatibility_keys(RedisSink.config_type, SINK | refused)
    assert all(known[name].refused and known[name].fix for name in refused)
    assert "redis.uri=redis://h:6379" in known["redis.host"].fix
    known = compatibility_keys(
        RedisSource.config_type, SOURCE | {"redis.stream.delivery": "at-most-once"}
    )
    assert known["redis.stream.delivery"].refused


@BOTH
def test_a_node_bounds_hosts_files_and_sockets(connector):
    assert spec_of(connector).enforces_reach
    given = base(connector)
    assert found(connector, given, hosts="other") == [("reach.host", "redis.uri")]
    tls = given | {"redis.uri": "rediss://server", "redis.cacert": "/etc/shadow"}
    assert found(connector, tls, folders="/data") == [("reach.folder", "redis.cacert")]
    socket = given | {"redis.uri": "unix:///run/redis.sock"}
    assert found(connector, socket, hosts="other") == []
    assert found(connector, socket, folders="/data") == [("reach.folder", "redis.uri")]


# ── with a server ────────────────────────────────────────────────────────────────────────────────


def copied(keys, stream):
    """Write rows by one connector, and read them by the other."""
    own = {"redis.key": stream, "redis.ledger.prefix": f"penstock:{stream}:"}
    with sink_task(RedisSink, keys | own) as sink:
        sink.write([{"n": n} for n in range(3)])
    with source_task(RedisSource, keys | {"redis.stream.name": stream}) as source:
        return [row["n"] for row in source.rows(3)]


def test_tls_with_a_certificate_of_its_own_authority(tmp_path):
    authority = Authority(tmp_path / "tls")
    certificate, key = authority.sign("localhost", address="127.0.0.1")
    client_certificate, client_key = authority.sign("client")
    with RedisServer(tmp_path / "r", certificate=(authority.ca, certificate, key)) as server:
        given = {
            "redis.uri": f"rediss://127.0.0.1:{server.tls_port}", "redis.password": PASSWORD,
            "redis.cacert": str(authority.ca), "redis.key.cert": str(client_certificate),
            "redis.key.file": str(client_key),
        }  # fmt: skip
        assert copied(given, "tls") == ["0", "1", "2"]
        insecure = {name: text for name, text in given.items() if name != "redis.cacert"}
        assert copied(insecure | {"redis.insecure": "true"}, "insecure") == ["0", "1", "2"]
        without = {name: given[name] for name in ("redis.uri", "redis.password", "redis.cacert")}
        missing = given | {"redis.cacert": str(tmp_path / "none")}
        for wrong, code in (
            (insecure, "redis.tls"), (without, "redis.(tls|unavailable)"), (missing, "redis.file"),
        ):  # fmt: skip
            config = parse_config(RedisSink.config_type, wrong | {"max.retry.time.ms": "200"})
            with pytest.raises(Exception, match=rf"\[{code}\]"):
                RedisSink.check(config)


def test_a_socket_and_a_database_of_a_number(redis_server):
    keys = {"redis.uri": f"unix://{redis_server.socket}", "redis.password": PASSWORD}
    assert copied(keys, "by-socket") == ["0", "1", "2"]
    numbered = redis_server.keys | {"redis.uri": redis_server.keys["redis.uri"] + "/3"}
    assert copied(numbered, "in-three") == ["0", "1", "2"]
    assert not redis_server.client.exists("in-three")


def test_users_have_what_they_need_and_no_more(own_redis):
    client = own_redis.client
    needed = "+@connection +info +eval +type +hset +hmget +xadd +del +xread +xinfo +xrevrange"
    client.execute_command(
        "ACL", "SETUSER", "app", "on", ">pw-of-app", "~orders*", "~penstock:*", "+multi", "+exec",
        *needed.split(),
    )  # fmt: skip
    given = {**own_redis.keys, "redis.username": "app", "redis.password": "pw-of-app"}
    assert copied(given, "orders") == ["0", "1", "2"]
    with pytest.raises(RemoteError) as told:
        copied(given, "other")
    assert told.value.code == "redis.no_permission"
    with pytest.raises(RemoteError) as told, sink_task(RedisSink, given | {"redis.command": "SET"}):
        pass
    assert told.value.code == "redis.no_permission"
    for wrong in ({"redis.password": "wrong-one"}, {"redis.username": "nobody"}):
        with pytest.raises(RemoteError) as told, sink_task(RedisSink, given | wrong):
            pass
        assert told.value.code == "redis.not_authorized"
        assert "wrong-one" not in str(told.value)
    without = {"redis.uri": given["redis.uri"]}
    with pytest.raises(RemoteError) as told, sink_task(RedisSink, without):
        pass
    assert told.value.code == "redis.not_authorized"


@BOTH
def test_what_does_not_answer_is_an_error_that_names_it(connector):
    config = parse_config(
        connector.config_type,
        base(connector) | {"redis.uri": "redis://127.0.0.1:1", "max.retry.time.ms": "100"},
    )
    with pytest.raises(Exception, match=r"\[redis.unavailable\] 127.0.0.1:1 ") as told:
        connector.check(config)
    assert told.value.config_path == "redis.uri"
