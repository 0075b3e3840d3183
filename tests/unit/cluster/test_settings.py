"""The settings of a process of a cluster, from a file and from its environment."""

import re

import pytest

from penstock.cluster.keys import KEYS, PREFIX, unknown_variables
from penstock.cluster.settings import instance_settings, resolve_advertised
from penstock.model.errors import ConfigError
from support.checkout import ROOT, product_files


def test_a_variable_wins_over_the_file():
    file = {"etcd.endpoints": "a:1", "cluster.name": "one", "lease.ttl": "3s"}
    environment = {"PENSTOCK_ETCD_ENDPOINTS": "b:1,c:2", "PENSTOCK_LOG_LEVEL": "INFO"}
    settings = instance_settings("config", file, environment)
    assert settings.etcd.endpoints == ("b:1", "c:2")
    assert settings.etcd.cluster == "one"
    assert settings.ttl == 3.0


def test_instances_of_one_host_have_ids_of_their_own_and_one_name():
    first, second = (instance_settings("worker", {}, {}) for _ in range(2))
    assert first.id != second.id
    assert first.name == second.name


@pytest.mark.parametrize(
    ("service", "config", "code"),
    [
        ("config", {"etcd.endpoint": "a:1"}, "config.unknown_key"),
        ("config", {"labels": "a=b"}, "config.unknown_key"),  # a worker's
        ("worker", {"capacity": "much"}, "config.wrong_type"),
        ("offset", {"store": "oracle"}, "config.bad_choice"),
        ("offset", {"etcd.endpoints": "http://a:1"}, "etcd.bad_endpoint"),
    ],
)
def test_a_wrong_key_is_named(service, config, code):
    with pytest.raises(ConfigError) as caught:
        instance_settings(service, config, {})
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("listen", "127.0.0.1"),  # gRPC would take port 443
        ("listen", "127.0.0.1:99999"),
        ("listen", ":7400"),
        ("listen", "http://host:7400"),
        ("advertise", "0.0.0.0"),
        ("advertise", "::"),
        ("advertise", "node one"),
        ("advertise", "node:99999"),
        ("lease.ttl", "5"),
        ("lease.ttl", "0"),
        ("lease.ttl", "100h"),
        ("instance.id", "a/b"),
        ("instance.id", "a b"),
        ("instance.id", "a\nb"),
        ("instance.id", "a\u2028b"),
        ("instance.id", "a" * 201),
        ("instance.name", "a/b"),
    ],
)
def test_an_invalid_value_is_refused(key, value):
    with pytest.raises(ConfigError) as caught:
        instance_settings("config", {key: value}, {})
    told = caught.value.diagnostic
    assert (told.code, told.config_path) == ("config.bad_value", key)
    assert told.fix


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:7400"])
def test_a_wildcard_address_needs_an_advertised_one(listen):
    with pytest.raises(ConfigError) as caught:
        instance_settings("config", {"listen": listen}, {})
    told = caught.value.diagnostic
    assert (told.code, told.config_path) == ("config.missing", "advertise")
    settings = instance_settings("config", {"listen": listen, "advertise": "fd00::5"}, {})
    assert settings.advertise == "fd00::5"


def test_all_errors_are_reported_at_once():
    with pytest.raises(ConfigError) as caught:
        instance_settings("offset", {"listn": "a:1", "lease.ttl": "0", "store": "postgresql"}, {})
    for name in ("listn", "lease.ttl", "store.url"):
        assert name in caught.value.diagnostic.detail


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("PENSTOCK_LEASE_TLL", "PENSTOCK_LEASE_TTL"),
        ("PENSTOCK_ETCD_ENDPOINT", "PENSTOCK_ETCD_ENDPOINTS"),
        ("PENSTOCK_LISTEN_PORT", "PENSTOCK_LISTEN"),
    ],
)
def test_a_misspelt_variable_is_refused(name, meant):
    with pytest.raises(ConfigError) as caught:
        instance_settings("config", {}, {name: "1"})
    told = caught.value.diagnostic
    assert (told.code, told.config_path) == ("config.unknown_variable", name)
    assert told.suggestion == meant
    assert f"`{meant}`" in told.fix


def test_variables_of_other_programs_are_accepted():
    """Of other services, of scripts and tests, and what Kubernetes says about services."""
    names = ("TOPICS_DIR", "STORE_URL", "FAULTS", "VENV", "PYTHON", "STORM_SEED", "INSTANCE_NONCE")
    links = {
        "PENSTOCK_CONFIG_SERVICE_HOST": "10.0.0.1",
        "PENSTOCK_CONFIG_SERVICE_PORT": "7070",
        "PENSTOCK_CONFIG_SERVICE_PORT_GRPC": "7070",
        "PENSTOCK_CONFIG_PORT": "tcp://10.0.0.1:7070",
        "PENSTOCK_CONFIG_PORT_7070_TCP": "tcp://10.0.0.1:7070",
        "PENSTOCK_CONFIG_PORT_7070_TCP_ADDR": "10.0.0.1",
        "PENSTOCK_PORT": "tcp://10.0.0.1:7070",
        "PENSTOCK_SERVICE_HOST": "10.0.0.1",
    }
    instance_settings("scheduler", {}, {**{f"PENSTOCK_{name}": "1" for name in names}, **links})


def test_every_variable_of_the_product_is_known():
    """What the sources name is known here."""
    named = re.compile(r"PENSTOCK_[A-Z0-9_]*[A-Z0-9]\b")
    scripts = (file for file in (ROOT / "deploy").rglob("*") if file.suffix in {".sh", ".tpl"})
    sources = [*product_files(), *scripts]
    found = {name for file in sources for name in named.findall(file.read_text(encoding="utf-8"))}
    assert {"PENSTOCK_EARLIER", "PENSTOCK_VENV", "PENSTOCK_ADVERTISE"} <= found
    keys = [key for of_service in KEYS.values() for key in of_service]
    assert unknown_variables(keys, dict.fromkeys(found, "")) == []


def test_postgresql_needs_a_url_that_is_never_printed():
    with pytest.raises(ConfigError) as caught:
        instance_settings("offset", {"store": "postgresql"}, {})
    assert caught.value.diagnostic.config_path == "store.url"
    url = "postgresql://me:hunter2@db.example/penstock"
    settings = instance_settings("offset", {"store": "postgresql", "store.url": url}, {})
    database = settings.postgresql()
    assert database is not None
    assert database.location() == "penstock penstock"
    assert "hunter2" not in f"{settings!r} {database!r}"


def test_labels_are_pairs():
    settings = instance_settings("worker", {"labels": "zone=a, disk=ssd"}, {})
    assert settings.labels() == {"zone": "a", "disk": "ssd"}
    with pytest.raises(ConfigError):
        instance_settings("worker", {"labels": "zone"}, {}).labels()


def test_a_worker_of_a_cluster_loads_only_sealed_plugins_by_default():
    def only_sealed(**config):
        return instance_settings("worker", config, {}).worker().plugins.path.only_sealed

    assert only_sealed()
    assert not only_sealed(**{"plugin.only.sealed": "false"})


def test_different_keys_have_different_variables():
    for keys in KEYS.values():
        names = {PREFIX + key.name.upper().replace(".", "_") for key in keys}
        assert len(names) == len(keys)


@pytest.mark.parametrize(
    ("advertise", "listening", "reached"),
    [
        ("", "127.0.0.1:7001", "127.0.0.1:7001"),
        ("node1", "0.0.0.0:7001", "node1:7001"),
        ("node1:0", "0.0.0.0:7001", "node1:7001"),
        ("node1:9001", "0.0.0.0:7001", "node1:9001"),
        ("[fd00::1]", "[::]:7001", "[fd00::1]:7001"),
        ("[fd00::1]:9001", "[::]:7001", "[fd00::1]:9001"),
    ],
)
def test_the_advertised_address_has_the_port_of_the_server(advertise, listening, reached):
    assert resolve_advertised(advertise, listening) == reached
