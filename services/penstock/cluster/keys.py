"""The keys of each service of a cluster: what they take, and what they are when nothing is said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.etcd.settings import LEASE_TTL
from penstock.gateway import settings as gateway
from penstock.model.config_def import ConfigKey, did_you_mean
from penstock.model.errors import ConfigError, nearest
from penstock.offset.leftovers import KEPT
from penstock.worker import process_keys as worker

COMMON: Final = (
    ConfigKey("cluster.name", default="default", doc="Name of the cluster in its etcd."),
    ConfigKey("instance.id", doc="Unique in the cluster; default: the host and a random part."),
    ConfigKey("instance.name", doc="What an instance keeps when it is started anew; the host."),
    ConfigKey("listen", default="127.0.0.1:0", doc="HOST:PORT to serve at; 0 takes a free port."),
    ConfigKey("advertise", doc="HOST or HOST:PORT that others reach it by; default: `listen`."),
    ConfigKey("etcd.endpoints", "list", ("127.0.0.1:2379",), doc="Members of etcd, HOST:PORT."),
    ConfigKey("etcd.user", default="", doc="User of etcd."),
    ConfigKey("etcd.password", "password", doc="Its password."),
    ConfigKey("etcd.tls.authority", doc="PEM file that etcd's certificate is checked by."),
    ConfigKey("etcd.tls.certificate", doc="PEM file that this process shows to etcd."),
    ConfigKey("etcd.tls.key", doc="PEM file with its key."),
    ConfigKey("tls.authority", doc="PEM file that certificates of services are checked by."),
    ConfigKey("tls.certificate", doc="PEM file that this process shows: <service>.penstock."),
    ConfigKey("tls.key", doc="PEM file with its key; all three, or none."),
    ConfigKey("lease.ttl", "duration", LEASE_TTL, doc="How long others wait for a silent one."),
    ConfigKey("drain.timeout", "duration", 20.0, doc="Time that an end in order may take."),
)

STORE: Final = (
    ConfigKey("store", default="etcd", choices=("etcd", "postgresql"), doc="Where state is."),
    ConfigKey("store.url", "password", doc="postgresql://USER:PASSWORD@HOST:PORT/DATABASE"),
    ConfigKey("store.schema", default="penstock", doc="Schema of the database, for this cluster."),
    ConfigKey("store.seal.keys", doc="File with keys that all that is stored is sealed by."),
)

OFFSET: Final = (
    ConfigKey(
        "offsets.deleted.retention",
        "duration",
        KEPT,
        doc="How long offsets of a deleted connector are kept.",
    ),
)

SCHEDULER: Final = (
    ConfigKey("rebalance.delay", "duration", 0.0, doc="How long tasks of a lost worker wait."),
)

WORKER: Final = (
    ConfigKey("state.dir", doc="Folder for scratch files, and for topics where no other is set."),
    ConfigKey("labels", "list", (), doc="name=value, …: what `placement` of connectors matches."),
    ConfigKey("capacity", "double", 1.0, doc="Tasks it takes, compared with other workers."),
    # one file put on a machine must not be enough to have it run with the secrets of a cluster
    *(replace(key, default=True) if key.name == worker.ONLY_SEALED else key for key in worker.KEYS),
)

KEYS: Final[Mapping[str, tuple[ConfigKey, ...]]] = {
    "config": (*COMMON, *STORE),
    "offset": (*COMMON, *STORE, *OFFSET),
    "scheduler": (*COMMON, *SCHEDULER),
    "worker": (*COMMON, *WORKER),
    "gateway": (*COMMON, *gateway.KEYS),
}
"""The keys of each service."""

OPEN: Final = worker.OPEN
"""What keys start with that are no fixed list; only a worker has such."""


PREFIX: Final = "PENSTOCK_"

_OTHERS: Final = frozenset(
    PREFIX + name
    for name in (
        *("LOG_LEVEL", "FAULTS", "EARLIER"),  # of every process
        *("INSTANCE_NONCE", "PLUGIN_MAGIC_COOKIE", "HANDSHAKE_FILE", "INSPECTABLE"),
        *("SERVER", "CREDENTIAL", "CA"),  # of commands that ask a gateway
        *("VENV", "PYTHON"),  # of the scripts that install
        *("ANCHORS", "BENCH_HOME", "STORM_SECONDS", "STORM_SEED"),  # of tests and benchmarks
    )
)
"""Variables that are no keys."""

_KUBERNETES: Final = re.compile(
    r"PENSTOCK_([A-Z0-9_]+_)?"
    r"(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_LINK: Final = re.compile(r"(tcp|udp|sctp)://.*")
"""What Kubernetes says to every pod about services named `penstock…`, the last as `…_PORT`."""


def variable(key: ConfigKey) -> str:
    """Return the variable of a key."""
    return PREFIX + key.name.upper().replace(".", "_")


def written(keys: Iterable[ConfigKey], environment: Mapping[str, str]) -> dict[str, str]:
    """Return what an environment says of these keys."""
    return {k.name: environment[variable(k)] for k in keys if variable(k) in environment}


def unknown(keys: Iterable[ConfigKey], environment: Mapping[str, str]) -> list[ConfigError]:
    """Return an error for each variable of ours that nobody reads. `keys` are those of all
    services: they may share one environment.
    """
    known = {variable(key) for key in keys}
    ours = sorted(name for name in environment if name.startswith(PREFIX))
    return [
        _unknown(name, known)
        for name in ours
        if name not in known | _OTHERS and not _of_kubernetes(name, environment[name])
    ]


def _of_kubernetes(name: str, value: str) -> bool:
    link = name.endswith("_PORT") and _LINK.fullmatch(value)
    return bool(link or _KUBERNETES.fullmatch(name))


def _unknown(name: str, known: Iterable[str]) -> ConfigError:
    # by what follows the prefix: with it, all of them look alike
    near = nearest(name.removeprefix(PREFIX), (one.removeprefix(PREFIX) for one in known))
    names = [PREFIX + one for one in near]
    return ConfigError(
        "config.unknown_variable",
        f"there is no variable `{name}`",
        fix=did_you_mean(name, names or known),
        config_path=name,
        suggestion=names[0] if names else "",
    )
