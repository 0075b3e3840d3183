"""The identity of a cluster: detects two Penstock clusters with the same name in one etcd.

Such clusters would take each other's tasks. The first service stores an id of the cluster and its
traits: settings on which all services must agree, for example the database of the store. Each
service compares the traits at its start and adds those that are not stored yet.

Two other checks: `member.taken` when two running instances have the same id, `etcd.other_cluster`
when the endpoints belong to different etcd clusters. Not detected: two deployments that agree on
all traits and share no id of an instance.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.etcd import operations
from penstock.etcd.client import Etcd
from penstock.etcd.membership import MEMBERS
from penstock.model.errors import ConfigError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Identity:
    """The stored identity and its revision; 0: not stored yet, and the id is new."""

    id: str
    traits: Mapping[str, str]
    revision: int

    def encode_with(self, added: Mapping[str, str]) -> bytes:
        """Return its value in etcd with added traits."""
        traits = {**self.traits, **added}
        return json.dumps({"id": self.id, "traits": traits}, sort_keys=True).encode()


async def claim_cluster(client: Etcd, traits: Mapping[str, str]) -> str:
    """Compare the traits of the cluster and store those that are missing; return its id.

    Raises:
        ConfigError: `cluster.name_taken`, naming the traits that differ.
    """
    while True:  # each lost race is a trait that another service stored; there are only a few
        identity = await _read_identity(client)
        _compare_traits(client.settings.cluster, identity.traits, traits)
        if identity.revision and traits.items() <= identity.traits.items():
            return identity.id
        key = f"{client.prefix}cluster"
        done = await client.txn(
            [operations.mod_revision_is(key, identity.revision)],
            [operations.put(key, identity.encode_with(traits))],
            stage="claim the name of the cluster",
            repeat=True,
        )
        if done.succeeded:
            return identity.id


async def verify_cluster(client: Etcd, traits: Mapping[str, str]) -> None:
    """Compare the traits of the cluster and store nothing: before a wrong store is opened.

    Raises:
        ConfigError: `cluster.name_taken`, naming the traits that differ.
    """
    _compare_traits(client.settings.cluster, (await _read_identity(client)).traits, traits)


async def agree_on_trait(client: Etcd, name: str, value: str, service: str) -> str:
    """Store a trait that holds while any member of a service runs; return the value that holds.

    It is `value`, or the stored one while a member of the service runs.
    """
    key = f"{client.prefix}cluster"
    while True:  # each lost race is a trait that another service stored
        identity = await _read_identity(client)
        known = identity.traits.get(name)
        if known == value:
            return value
        no_members = (
            []
            if known is None
            else [operations.prefix_is_empty(f"{client.prefix}{MEMBERS}{service}/")]
        )
        done = await client.txn(
            [operations.mod_revision_is(key, identity.revision), *no_members],
            [operations.put(key, identity.encode_with({name: value}))],
            [operations.read(key)],
            stage=f"agree on {name} of the cluster",
            repeat=True,
        )
        if done.succeeded:
            if known is not None:
                _log.warning("%s of the cluster changed from %s to %s", name, known, value)
            return value
        entries = done.reads[0].entries
        if known is not None and entries and entries[0].mod_revision == identity.revision:
            return known  # no other service was faster: a member runs


async def _read_identity(client: Etcd) -> _Identity:
    entries = (await client.get(f"{client.prefix}cluster")).entries
    if not entries:
        return _Identity(uuid.uuid4().hex, {}, 0)
    known = json.loads(entries[0].value)
    return _Identity(str(known["id"]), known["traits"], entries[0].mod_revision)


def _compare_traits(cluster: str, known: Mapping[str, str], ours: Mapping[str, str]) -> None:
    differing = sorted(name for name in known.keys() & ours.keys() if known[name] != ours[name])
    if differing:
        differences = ", ".join(
            f"{name} is {known[name]} there, {ours[name]} here" for name in differing
        )
        raise ConfigError(
            "cluster.name_taken",
            f"another Penstock cluster in this etcd is named `{cluster}`: {differences}",
            fix="Name this cluster differently, or give it the same settings as the other services"
            " of the cluster. If the cluster moved, remove the key `cluster` under its prefix.",
            config_path="cluster.name",
        )
