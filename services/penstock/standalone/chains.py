"""`transforms:` and `predicates:` of a file as Kafka Connect's flat keys. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.model.errors import ConfigError
from penstock.standalone.files import flatten

CHAINS: Final = ("transforms", "predicates")


def chain(kind: str, written: Any) -> dict[str, str]:
    """Return the keys of a chain. It is a list of members, or a mapping by their names, or only
    names, whose keys stand elsewhere.

    Raises:
        ConfigError: `config.chain`.
    """
    if written is None:
        return {}
    if isinstance(written, str):
        return {kind: written}
    config: dict[str, str] = {}
    names: list[str] = []
    for name, keys in _members(kind, written):
        if name in names:
            raise _malformed(f"{kind}.{name}", f"two of `{kind}` are named `{name}`")
        names.append(name)
        config.update(flatten({f"{kind}.{name}": keys}))
    return {kind: ",".join(names), **config}


def _members(kind: str, written: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the members by name, each with its keys."""
    if isinstance(written, Mapping):
        for name, keys in written.items():
            if not isinstance(keys, Mapping):
                raise _malformed(f"{kind}.{name}", f"`{name}` of `{kind}` is no mapping of keys")
            yield str(name), keys
        return
    if not isinstance(written, list):
        raise _malformed(kind, f"`{kind}` is no list")
    for place, member in enumerate(written, 1):
        if isinstance(member, str):
            yield member, {}
        elif isinstance(member, Mapping):
            name = member.get("name") or f"{kind[:-1]}{place}"
            if not isinstance(name, str):
                raise _malformed(kind, f"the name of {place} of `{kind}` is no text")
            yield name, {key: value for key, value in member.items() if key != "name"}
        else:
            raise _malformed(kind, f"{place} of `{kind}` is no mapping of keys")


def _malformed(where: str, what: str) -> ConfigError:
    return ConfigError(
        "config.chain",
        what,
        fix="Write a list: `- {name: keep, type: Filter, condition: …}`.",
        config_path=where,
    )
