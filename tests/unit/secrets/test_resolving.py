"""Configurations with the values of their references, and what is told when there are none."""

import asyncio

import pytest

from penstock.model.errors import PenstockError
from penstock.secrets.provider import ProviderResponse, unreachable
from penstock.secrets.resolution import Secrets


class Fixed:
    """Knows some keys of each path."""

    def __init__(self, ttl=None, **values):
        self.values, self.ttl, self.asked, self.closed = values, ttl, [], 0

    async def read(self, path, keys):
        self.asked.append((path, sorted(keys)))
        if path == "away":
            raise unreachable("it is away", "Wait.")
        return ProviderResponse({k: v for k, v in self.values.items() if k in keys}, self.ttl)

    async def close(self):
        self.closed += 1


def resolve(config, **providers):
    return asyncio.run(Secrets(providers).resolve(config))


def test_each_place_is_asked_once_for_all_its_keys():
    one = Fixed(a="1", b="2")
    resolved = resolve({"x": "${p:q:a}", "y": "<${p:q:b}${p:q:a}>", "z": "plain"}, p=one)
    assert dict(resolved.config) == {"x": "1", "y": "<21>", "z": "plain"}
    assert resolved.reference_keys == {"x", "y"}
    assert one.asked == [("q", ["a", "b"])]


def test_the_shortest_time_counts():
    resolved = resolve({"x": "${p:a}", "y": "${q:a}", "z": "${r:a}"}, p=Fixed(60, a=""),
                       q=Fixed(5, a=""), r=Fixed(a=""))  # fmt: skip
    assert resolved.ttl_s == 5


def test_values_are_in_no_representation():
    assert "hunter2" not in repr(resolve({"x": "${p:a}"}, p=Fixed(a="hunter2")))


def test_a_reference_to_nobody_is_text_and_worth_a_warning():
    secrets = Secrets({"vault": Fixed()})
    config = {"x": "${valut:a:b}", "y": "${topic}"}
    assert dict(asyncio.run(secrets.resolve(config)).config) == config
    (warning,) = secrets.check_references(config)
    assert (warning.code, warning.config_path) == ("secrets.unknown_provider", "x")
    assert warning.suggestion == "vault"


@pytest.mark.parametrize(
    ("value", "code"), [("${p:b}", "secrets.not_found"), ("${p:away:a}", "secrets.unreachable")]
)
def test_what_cannot_be_read_is_told_with_the_key_it_stands_at(value, code):
    with pytest.raises(PenstockError) as caught:
        resolve({"x": "1", "password": value}, p=Fixed(a="1"))
    assert (caught.value.code, caught.value.diagnostic.config_path) == (code, "password")


def test_all_providers_are_let_go_of():
    one = Fixed()
    asyncio.run(Secrets({"a": one}).close())
    assert one.closed == 1
