"""The address that an instance is found at."""

import pytest

from penstock.cluster.settings import advertised


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
def test_what_is_said_wins_and_gets_the_port_that_was_taken(said, found):
    assert advertised(said, "0.0.0.0:7400") == found
