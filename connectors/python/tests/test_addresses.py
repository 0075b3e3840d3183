"""Which zone an address is in."""

import socket

import pytest

from penstock_connector import ConfigError
from penstock_connector.addresses import AddressPolicy, Zone, names_loopback, zone_of


@pytest.mark.parametrize(
    ("address", "zone"),
    [
        ("93.184.215.14", Zone.PUBLIC),
        ("2606:2800:21f:cb07::1", Zone.PUBLIC),
        ("10.0.0.1", Zone.PRIVATE),
        ("192.168.1.1", Zone.PRIVATE),
        ("100.64.0.1", Zone.PRIVATE),
        ("fd00::1", Zone.PRIVATE),
        ("127.0.0.1", Zone.LOOPBACK),
        ("127.255.0.9", Zone.LOOPBACK),
        ("0.0.0.0", Zone.LOOPBACK),
        ("0.1.2.3", Zone.LOOPBACK),
        ("::", Zone.LOOPBACK),
        ("::1", Zone.LOOPBACK),
        ("::ffff:127.0.0.1", Zone.LOOPBACK),
        ("::ffff:0.0.0.0", Zone.LOOPBACK),
        ("::127.0.0.1", Zone.LOOPBACK),
        ("64:ff9b::7f00:1", Zone.LOOPBACK),
        ("2002:7f00:1::", Zone.LOOPBACK),
        ("169.254.169.254", Zone.LINK_LOCAL),
        ("169.254.0.1", Zone.LINK_LOCAL),
        ("::ffff:169.254.169.254", Zone.LINK_LOCAL),
        ("64:ff9b::a9fe:a9fe", Zone.LINK_LOCAL),
        ("fe80::1", Zone.LINK_LOCAL),
        ("fe80::1%eth0", Zone.LINK_LOCAL),
        ("febf::1", Zone.LINK_LOCAL),
        ("fd00:ec2::254", Zone.LINK_LOCAL),
        ("100.100.100.200", Zone.LINK_LOCAL),
        ("168.63.129.16", Zone.LINK_LOCAL),
    ],
)
def test_an_address_is_in_its_zone(address, zone):
    assert zone_of(address) is zone


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "::1"])
def test_a_plain_name_of_loopback_is_known(host):
    assert names_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["2130706433", "0x7f.1", "127.1", "::ffff:127.0.0.1", "::", "0.0.0.0", "localhost.example", ""],
)
def test_no_other_host_names_loopback(host):
    assert not names_loopback(host)


@pytest.fixture
def two_faced(monkeypatch):
    """A name with a public address and one of loopback."""
    look_up = socket.getaddrinfo

    def answer(host, port, *more, **named):
        hosts = ["127.0.0.1", "93.184.215.14"] if host == "two.example" else [host]
        return [found for one in hosts for found in look_up(one, port, *more, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return "two.example"


def test_of_a_name_the_addresses_that_are_open_are_left(two_faced):
    assert AddressPolicy().addresses(two_faced, 80) == ["93.184.215.14"]
    both = AddressPolicy(["127.0.0.0/8"]).addresses(two_faced, 80)
    assert both == ["127.0.0.1", "93.184.215.14"]
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1"):
        AddressPolicy().addresses("127.1", 80)


def test_of_a_name_that_others_look_up_one_refused_address_is_enough(two_faced):
    with pytest.raises(ConfigError, match=r"two\.example is 127\.0\.0\.1"):
        AddressPolicy().require(two_faced, 80)
    AddressPolicy([two_faced]).require(two_faced, 80)
    AddressPolicy().require("no.such.host.invalid", 80)
    AddressPolicy().require("localhost", 80, configured=True)
    with pytest.raises(ConfigError):
        AddressPolicy().require("localhost", 80, configured=False)
