"""Which zone an address is in."""

import pytest

from penstock_connector.addresses import Zone, names_loopback, zone_of


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
