"""Keys as variables of the environment: `PENSTOCK_ETCD_ENDPOINTS` for `etcd.endpoints`.

The prefix is ours, so that a name which nobody reads is a mistake and told, as in a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.model.config_def import ConfigKey, did_you_mean
from penstock.model.errors import ConfigError, nearest

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
