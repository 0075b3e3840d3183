"""Two Penstock clusters with one name in one etcd would take each other's tasks; this notices.

The first service writes down what makes the cluster the one it is: an id, and what its services
must agree on (for instance which database its store is). Each service compares at its start, and
adds what none before it knew.
Besides, `member.taken` tells when two living instances have one id, and `etcd.other_cluster` when
the endpoints belong to different etcd clusters. Not noticed: two deployments that agree on all of
this and have no id of an instance in common. They are one cluster by every sign there is.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.etcd import ops
from penstock.etcd.client import Etcd
from penstock.etcd.membership import PLACE
from penstock.model.errors import ConfigError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Identity:
    """What is written down, and at which revision; 0: nothing yet, the id is a new one."""

    id: str
    traits: Mapping[str, str]
    revision: int

    def encoded(self, more: Mapping[str, str]) -> bytes:
        """Return its value in etcd, with more traits."""
        traits = {**self.traits, **more}
        return json.dumps({"id": self.id, "traits": traits}, sort_keys=True).encode()


async def claim(client: Etcd, traits: Mapping[str, str]) -> str:
    """Write down those traits of the cluster that nobody has, compare the others; returns the id
    of the cluster.

    Raises:
        ConfigError: `cluster.name_taken`, naming the traits that differ.
    """
    while True:  # each lost race is a trait that another wrote, and there are a few
        identity = await _read(client)
        compare(client.settings.cluster, identity.traits, traits)
        if identity.revision and traits.items() <= identity.traits.items():
            return identity.id
        key = f"{client.prefix}cluster"
        done = await client.txn(
            [ops.unchanged(key, identity.revision)],
            [ops.put(key, identity.encoded(traits))],
            stage="claim the name of the cluster",
            repeat=True,
        )
        if done.succeeded:
            return identity.id


async def verify(client: Etcd, traits: Mapping[str, str]) -> None:
    """Compare the traits of the cluster, and write nothing: before what may be wrong is opened.

    Raises:
        ConfigError: `cluster.name_taken`, naming the traits that differ.
    """
    compare(client.settings.cluster, (await _read(client)).traits, traits)


async def settle(client: Etcd, name: str, value: str, service: str) -> str:
    """Write down a trait that binds while a member of a service is alive; returns what holds now:
    our value, or that of the living.
    """
    key = f"{client.prefix}cluster"
    while True:  # each lost race is a trait that another wrote
        identity = await _read(client)
        known = identity.traits.get(name)
        if known == value:
            return value
        unbound = [] if known is None else [ops.nobody(f"{client.prefix}{PLACE}{service}/")]
        done = await client.txn(
            [ops.unchanged(key, identity.revision), *unbound],
            [ops.put(key, identity.encoded({name: value}))],
            [ops.read(key)],
            stage=f"settle {name} of the cluster",
            repeat=True,
        )
        if done.succeeded:
            if known is not None:
                log.warning("%s of the cluster: %s, and no more %s", name, value, known)
            return value
        entries = done.found[0].entries
        if known is not None and entries and entries[0].revision == identity.revision:
            return known  # nobody was quicker: a member is alive


async def _read(client: Etcd) -> _Identity:
    entries = (await client.get(f"{client.prefix}cluster")).entries
    if not entries:
        return _Identity(uuid.uuid4().hex, {}, 0)
    known = json.loads(entries[0].value)
    return _Identity(str(known["id"]), known["traits"], entries[0].revision)


def compare(cluster: str, known: Mapping[str, str], ours: Mapping[str, str]) -> None:
    """Refuse traits that differ from those written down.

    Raises:
        ConfigError: `cluster.name_taken`.
    """
    differing = sorted(name for name in known.keys() & ours.keys() if known[name] != ours[name])
    if differing:
        told = ", ".join(f"{name} is {known[name]} there, {ours[name]} here" for name in differing)
        raise ConfigError(
            "cluster.name_taken",
            f"another Penstock cluster in this etcd is named `{cluster}`: {told}",
            fix="Name this cluster differently, or give it the same settings as the other services"
            " of the cluster. A cluster that moved: remove the key `cluster` under its prefix.",
            config_path="cluster.name",
        )
