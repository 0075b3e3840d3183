"""What a node lets a connector reach: folders, and hosts by the names that a configuration has.

    @dataclass(frozen=True)
    class MyConfig(Reaching):
        path: str = key(doc="A file.", required=True)

        def require_reach(self) -> None:
            self.reach.require_path(self.path, "path")

A configuration that is `Reaching` promises that its connector opens nothing outside. What is named
is compared here, before anything is opened; what is met later (a link, a redirect, a folder named
after a topic) where it is opened.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from penstock_connector._errors import ConfigError

FOLDERS: Final = "reach.folders"
HOSTS: Final = "reach.hosts"
"""The keys by which a host tells it, which no user sets."""

_ANY: Final = "*"
_PROC: Final = "/proc"
"""A folder of links into other processes: nothing in it is inside of another folder."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Folders and hosts; None for any. Folders may be `s3://bucket/prefix`, too."""

    folders: tuple[str, ...] | None = None
    hosts: tuple[str, ...] | None = None

    @classmethod
    def told(cls, given: Mapping[str, str]) -> Reach:
        """Return what a target's configuration says; without a word about it, anything."""
        return cls(_list(given.get(FOLDERS, _ANY)), _list(given.get(HOSTS, _ANY)))

    @property
    def everything(self) -> bool:
        """Whether nothing is bounded."""
        return self.folders is None and self.hosts is None

    def has_path(self, path: str) -> bool:
        """Return whether a file or folder, with all links in its name followed, is inside."""
        if self.folders is None:
            return True
        real = os.path.realpath(path)
        return any(_is_inside(real, os.path.realpath(folder)) for folder in self._local())

    def has_opened(self, fd: int) -> bool:
        """Return whether what was opened is inside, whatever its name was when it was."""
        return self.has_path(os.readlink(f"/proc/self/fd/{fd}"))  # noqa: PTH115 - no name is parsed

    def has_host(self, host: str) -> bool:
        """Return whether a host may be named. A network counts for addresses, not for names."""
        return self.hosts is None or any(_is_host(host, one) for one in self.hosts)

    def require_path(self, path: str, config_path: str = "") -> None:
        """Raise for a file or folder outside.

        Raises:
            ConfigError: `reach.folder`.
        """
        if path and not self.has_path(path):
            raise outside_folder(path, config_path)

    def require_template(self, path: str, config_path: str = "") -> None:
        """Raise for a path whose part before the first `${…}` or sign of a pattern is outside."""
        path = os.path.abspath(path)  # noqa: PTH100 - `a/${topic}/..` is `a`
        fixed = re.split(r"\$\{|[*?\[]", path, maxsplit=1)[0]
        # only whole names are sure: behind them anything may stand
        self.require_path(path if fixed == path else os.path.dirname(fixed), config_path)  # noqa: PTH120

    def require_object(self, url: str, config_path: str = "") -> None:
        """Raise for a URL of an object store outside: `s3://bucket/prefix`. Keys begin with a
        prefix, so `s3://bucket/a` would mean those of `s3://bucket/ab`, too: it ends with `/`.
        """
        if self.folders is not None and not any(
            f"{url}/".startswith(f"{folder}/")
            if folder.count("/") == 2
            # a bucket
            else url.startswith(f"{folder}/")
            for folder in (one.rstrip("/") for one in self.folders if "://" in one)
        ):
            raise outside_folder(url, config_path)

    def require_host(self, host: str, config_path: str = "") -> None:
        """Raise for a host that may not be named.

        Raises:
            ConfigError: `reach.host`.
        """
        if not self.has_host(host):
            raise ConfigError(
                "reach.host",
                f"{host[:200]} is not among the hosts that this connector may reach",
                fix=f"Name another, or have it added to {_rule('hosts')}.",
                config_path=config_path,
            )

    def require_url(self, url: str, config_path: str = "") -> None:
        """Raise for a URL whose host may not be named."""
        if self.hosts is not None:
            self.require_host(urlsplit(url).hostname or "", config_path)

    def _local(self) -> list[str]:
        return [folder for folder in self.folders or () if "://" not in folder]


ANYWHERE: Final = Reach()


@dataclass(frozen=True)
class Reaching:
    """A configuration whose connector keeps to `reach`."""

    reach: Reach = dataclasses.field(default=ANYWHERE, init=False, repr=False, compare=False)

    def require_reach(self) -> None:
        """Raise for what the configuration names and is outside. Nothing, for one that names no
        file and no host.

        Raises:
            ConfigError: `reach.folder`, `reach.host`.
        """

    def bounded_by(self, reach: Reach) -> None:
        """Take what the node says, and compare. Comes once, before the connector gets it.

        Raises:
            ConfigError: as `require_reach`.
        """
        object.__setattr__(self, "reach", reach)
        self.require_reach()


def outside_folder(path: str, config_path: str = "") -> ConfigError:
    """Return what is said of a file or folder outside."""
    return ConfigError(
        "reach.folder",
        f"{path[:500]} is not inside the folders that this connector may reach",
        fix=f"Name another, or have its folder added to {_rule('folders')}.",
        config_path=config_path,
    )


def _rule(dimension: str) -> str:
    return f"`reach.<rule>.{dimension}` of the workers"


def _list(text: str) -> tuple[str, ...] | None:
    values = tuple(item.strip() for item in text.split(",") if item.strip())
    return None if _ANY in values else values


def _is_inside(real: str, folder: str) -> bool:
    if real.startswith(f"{_PROC}/") and not folder.startswith(_PROC):
        return False
    return real == folder or real.startswith(folder.rstrip("/") + "/")


def _is_host(host: str, allowed: str) -> bool:
    host, allowed = host.lower().rstrip("."), allowed.lower()
    if allowed.startswith("*."):
        return host.endswith(allowed[1:])
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host == allowed
    try:
        return address in ipaddress.ip_network(allowed)
    except ValueError:
        return False
