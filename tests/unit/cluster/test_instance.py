"""The address at which an instance is reached."""

import pytest

from penstock.cluster.settings import resolve_advertised


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("", "0.0.0.0:7400"),
        ("10.0.0.7", "10.0.0.7:7400"),
        ("10.0.0.7:0", "10.0.0.7:7400"),
        ("proxy.example:443", "proxy.example:443"),
        ("fd00::a:5", "[fd00::a:5]:7400"),
        ("fd00::", "[fd00::]:7400"),
        ("[fd00::5]", "[fd00::5]:7400"),
        ("[fd00::5]:443", "[fd00::5]:443"),
        ("[fd00::5]:0", "[fd00::5]:7400"),
    ],
)
def test_the_advertised_host_gets_the_port_of_the_server(said, found):
    assert resolve_advertised(said, "0.0.0.0:7400") == found
