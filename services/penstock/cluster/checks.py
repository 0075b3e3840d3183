"""What the keys of an instance can be, told before anybody is asked anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.cluster.address import advertised, everywhere, well_formed
from penstock.etcd.lease import SHORTEST
from penstock.model.errors import ConfigError

LONGEST_LEASE: Final = 600.0
"""Seconds. Others wait that long for a dead instance; more is a mistake in the unit."""

LONGEST_NAME: Final = 200
"""Characters of an id: it is part of keys in etcd and of every line of a log about it."""


def findings(values: Mapping[str, Any]) -> Iterator[ConfigError]:
    """Find what cannot be. A key without a value has been refused already."""
    yield from _places(values.get("listen", ""), values.get("advertise") or "")
    ttl = values.get("lease.ttl", SHORTEST)
    if not SHORTEST <= ttl <= LONGEST_LEASE:
        fix = f"Give {SHORTEST:g}s to {LONGEST_LEASE:g}s; a bare number is in milliseconds."
        yield _bad("lease.ttl", f"{ttl:g} s", fix)
    for key in ("instance.id", "instance.name"):
        name = values.get(key) or ""
        if len(name) > LONGEST_NAME or not all(c.isprintable() and c not in "/ " for c in name):
            fix = f"Use up to {LONGEST_NAME} characters without `/` and white space."
            yield _bad(key, repr(name[:LONGEST_NAME]), fix)
    if values.get("store") == "postgresql" and not values.get("store.url", "?"):
        yield ConfigError(
            "config.missing",
            "state is to be in PostgreSQL, and `store.url` does not say where that is",
            fix="Set `store.url` to postgresql://USER:PASSWORD@HOST:PORT/DATABASE.",
            config_path="store.url",
        )


def _places(listen: str, advertise: str) -> Iterator[ConfigError]:
    if listen and not well_formed(listen):
        yield _bad("listen", repr(listen), "Give HOST:PORT; port 0 takes a free one.")
    elif everywhere(listen) and not advertise:
        yield ConfigError(
            "config.missing",
            f"`listen` is {listen}, every address of this machine: others cannot dial that",
            fix="Set `advertise` to the HOST or HOST:PORT that the other services reach it by.",
            config_path="advertise",
        )
    reached = advertised(advertise, "host:1")
    if not well_formed(reached) or everywhere(reached):
        fix = "Give the HOST or HOST:PORT that the other services reach this one by."
        yield _bad("advertise", repr(advertise), fix)


def _bad(key: str, shown: str, fix: str) -> ConfigError:
    return ConfigError("config.bad_value", f"`{key}` cannot be {shown}", fix=fix, config_path=key)
