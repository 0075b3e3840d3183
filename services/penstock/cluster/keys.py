"""The keys of each service of a cluster, with their defaults, and the variables that set them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.etcd.settings import LEASE_TTL_S
from penstock.gateway import settings as gateway
from penstock.model.config_def import ConfigKey, did_you_mean
from penstock.model.errors import ConfigError, nearest_names
from penstock.offset.retention import DEFAULT_RETENTION_S
from penstock.worker import process_keys as worker

COMMON: Final = (
    ConfigKey("cluster.name", default="default", doc="Name of the cluster in etcd."),
    ConfigKey("instance.id", doc="Unique in the cluster; default: the host and a random part."),
    ConfigKey("instance.name", doc="Name that survives restarts; default: the host."),
    ConfigKey("listen", default="127.0.0.1:0", doc="HOST:PORT to serve at; 0 takes a free port."),
    ConfigKey("advertise", doc="HOST or HOST:PORT at which others reach it; default: `listen`."),
    ConfigKey("etcd.endpoints", "list", ("127.0.0.1:2379",), doc="Members of etcd, HOST:PORT."),
    ConfigKey("etcd.user", default="", doc="User of etcd."),
    ConfigKey("etcd.password", "password", doc="Its password."),
    ConfigKey("etcd.tls.authority", doc="PEM file of the authority of etcd's certificate."),
    ConfigKey("etcd.tls.certificate", doc="PEM file of the certificate for etcd."),
    ConfigKey("etcd.tls.key", doc="PEM file with its key."),
    ConfigKey("tls.authority", doc="PEM file of the authority of services' certificates."),
    ConfigKey("tls.certificate", doc="PEM file of its certificate, for <service>.penstock."),
    ConfigKey("tls.key", doc="PEM file with its key; all three, or none."),
    ConfigKey(
        "lease.ttl", "duration", LEASE_TTL_S, doc="Time until a silent instance counts as lost."
    ),
    ConfigKey("drain.timeout", "duration", 20.0, doc="Time for an orderly shutdown."),
)

SEAL: Final = ConfigKey("store.seal.keys", doc="File with keys that encrypt everything stored.")

STORE: Final = (
    ConfigKey(
        "store", default="etcd", choices=("etcd", "postgresql"), doc="Where state is stored."
    ),
    ConfigKey("store.url", "password", doc="postgresql://USER:PASSWORD@HOST:PORT/DATABASE"),
    ConfigKey("store.schema", default="penstock", doc="Schema of the database, for this cluster."),
    SEAL,
)

OFFSET: Final = (
    ConfigKey(
        "offsets.deleted.retention",
        "duration",
        DEFAULT_RETENTION_S,
        doc="How long offsets of a deleted connector are kept.",
    ),
)

SCHEDULER: Final = (
    ConfigKey("rebalance.delay", "duration", 0.0, doc="Time before tasks of a lost worker move."),
)

WORKER: Final = (
    ConfigKey("state.dir", doc="Folder for scratch files, and for topics where no other is set."),
    ConfigKey("labels", "list", (), doc="name=value, …: matched by `placement` of connectors."),
    ConfigKey("capacity", "double", 1.0, doc="Share of tasks, relative to other workers."),
    # a plugin copied onto a machine must not run with the secrets of a cluster
    *(replace(key, default=True) if key.name == worker.ONLY_SEALED else key for key in worker.KEYS),
)

KEYS: Final[Mapping[str, tuple[ConfigKey, ...]]] = {
    "config": (*COMMON, *STORE),
    "offset": (*COMMON, *STORE, *OFFSET),
    "scheduler": (*COMMON, SEAL, *SCHEDULER),
    "worker": (*COMMON, *WORKER),
    "gateway": (*COMMON, *gateway.KEYS),
}
"""The keys of each service."""

PREFIX: Final = "PENSTOCK_"

_OTHER_VARIABLES: Final = frozenset(
    PREFIX + name
    for name in (
        *("LOG_LEVEL", "FAULTS", "EARLIER"),  # of every process
        *("INSTANCE_NONCE", "PLUGIN_MAGIC_COOKIE", "HANDSHAKE_FILE", "INSPECTABLE"),
        *("SERVER", "CREDENTIAL", "CA"),  # of commands that call a gateway
        *("CONNECT_CREDENTIAL", "CONNECT_CA"),  # of those that call Kafka Connect
        *("VENV", "PYTHON"),  # of the scripts that install
        *("ANCHORS", "BENCH_HOME", "STORM_SECONDS", "STORM_SEED"),  # of tests and benchmarks
    )
)
"""Variables that are not keys."""

_KUBERNETES: Final = re.compile(
    r"PENSTOCK_([A-Z0-9_]+_)?"
    r"(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_KUBERNETES_LINK: Final = re.compile(r"(tcp|udp|sctp)://.*")
"""Value of the variable `…_PORT` that Kubernetes sets in every pod for each service named
`penstock…`.
"""


def variable_name(key: ConfigKey) -> str:
    """Return the variable of a key."""
    return PREFIX + key.name.upper().replace(".", "_")


def read_variables(keys: Iterable[ConfigKey], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that an environment sets."""
    return {k.name: environment[variable_name(k)] for k in keys if variable_name(k) in environment}


def unknown_variables(
    keys: Iterable[ConfigKey], environment: Mapping[str, str]
) -> list[ConfigError]:
    """Return an error for each `PENSTOCK_…` variable that no service reads. `keys` are those of all
    services: they may share one environment.
    """
    known = {variable_name(key) for key in keys}
    ours = sorted(name for name in environment if name.startswith(PREFIX))
    return [
        _unknown(name, known)
        for name in ours
        if name not in known | _OTHER_VARIABLES and not _of_kubernetes(name, environment[name])
    ]


def _of_kubernetes(name: str, value: str) -> bool:
    link = name.endswith("_PORT") and _KUBERNETES_LINK.fullmatch(value)
    return bool(link or _KUBERNETES.fullmatch(name))


def _unknown(name: str, known: Iterable[str]) -> ConfigError:
    # compare what follows the prefix, which all of them share
    near = nearest_names(name.removeprefix(PREFIX), (one.removeprefix(PREFIX) for one in known))
    names = [PREFIX + one for one in near]
    return ConfigError(
        "config.unknown_variable",
        f"there is no variable `{name}`",
        fix=did_you_mean(name, names or known),
        config_path=name,
        suggestion=names[0] if names else "",
    )
