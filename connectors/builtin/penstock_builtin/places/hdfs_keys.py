"""How HDFS is reached, and as whom: keys of a configuration, and URLs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from penstock_connector import ConfigError, key
from penstock_connector.reach import Reach

_SCHEME: Final = "hdfs://"
_PORT: Final = 8020
"""Where a name node listens, unless a URL says another port."""


def is_hdfs(path: str) -> bool:
    """Return whether a path is of HDFS."""
    return path.startswith(_SCHEME)


@dataclass(frozen=True, slots=True)
class HdfsUrl:
    """A name node (`host:port`) or a name service, and an absolute path there."""

    authority: str
    path: str

    @classmethod
    def parse(cls, url: str, config_path: str = "path") -> HdfsUrl:
        """Return the parts of `hdfs://host:port/path`. Nothing in a path is escaped.

        Raises:
            ConfigError: `config.invalid_value`: there is no name node, or the path climbs.
        """
        authority, slash, rest = url.removeprefix(_SCHEME).partition("/")
        if not authority or set(authority) & set("?#@ ") or not _has_port(authority):
            raise ConfigError(
                "config.invalid_value",
                f"{url!r} names no name node",
                fix="Write hdfs://host:8020/folder, or hdfs://nameservice/folder with "
                "`hdfs.namenodes` or `hadoop.conf.dir`; the user goes to `hdfs.user`.",
                config_path=config_path,
            )
        parts = [part for part in rest.split("/") if part]
        if {".", ".."} & set(parts):
            raise ConfigError(
                "config.invalid_value",
                f"{url!r}: a path of HDFS has no `.` and `..`",
                fix="Write the folder itself.",
                config_path=config_path,
            )
        end = "/" if slash and rest.endswith("/") and parts else ""
        return cls(authority, "/" + "/".join(parts) + end)

    def at(self, path: str) -> str:
        """Return the URL of an absolute path."""
        return f"{_SCHEME}{self.authority}{path}"

    @property
    def service(self) -> str:
        """The name that settings of a name service have."""
        return self.authority.partition(":")[0]


@dataclass(frozen=True)
class HdfsKeys:
    """How HDFS is reached. The name nodes are those of the URL, unless one of these says others."""

    hdfs_user: str = key(
        "", doc="User of HDFS (simple authentication); empty: the one that the worker runs as."
    )
    hdfs_namenodes: tuple[str, ...] = key(
        (),
        doc="Name nodes (`host:port`) of the name service that hdfs:// names, one of which is "
        "active.",
    )
    hadoop_conf_dir: str = key(
        "",
        doc="Folder with `core-site.xml` and `hdfs-site.xml`, on the worker's machine: name "
        "services and settings of the client.",
    )

    def require_hdfs(self, reach: Reach, urls: Iterable[str]) -> None:
        """Raise for name nodes, folders and settings that may not be reached. Data nodes are those
        that the name nodes tell.

        Raises:
            ConfigError: `reach.host`, `reach.folder`.
        """
        if reach.everything:
            return
        reach.require_path(self.hadoop_conf_dir, "hadoop.conf.dir")
        for url in urls:
            reach.require_object(url, "path")
            for node in self.name_nodes(HdfsUrl.parse(url)):
                reach.require_host(node.rpartition(":")[0], "path")

    def refuse_hdfs_keys(self, urls: Iterable[str]) -> None:
        """Refuse keys that cannot be in force.

        Raises:
            ConfigError: `config.contradiction`, `config.invalid_value`, `hdfs.kerberos`.
        """
        parsed = [HdfsUrl.parse(url) for url in urls]
        for name, value in self._set().items():
            if value and not parsed:
                raise ConfigError(
                    "config.contradiction",
                    f"`{name}` is about HDFS, and no path of it is named",
                    fix=f"Set `path` to hdfs://host:8020/folder, or leave out `{name}`.",
                    config_path=name,
                )
        if len({url.authority for url in parsed}) > 1:
            raise ConfigError(
                "config.contradiction",
                "paths of several clusters are named",
                fix="Make a connector for each.",
                config_path="path",
            )
        for node in self.hdfs_namenodes:
            if ":" not in node or not _has_port(node):
                raise ConfigError(
                    "config.invalid_value",
                    f"{node!r} is no address of a name node",
                    fix="Write host:port, for instance nn1.example.com:8020.",
                    config_path="hdfs.namenodes",
                )
        if parsed and self.hdfs_namenodes and ":" in parsed[0].authority:
            raise ConfigError(
                "config.contradiction",
                f"{parsed[0].authority} is one name node, and `hdfs.namenodes` are others",
                fix="Name the service without a port: hdfs://nameservice/folder.",
                config_path="hdfs.namenodes",
            )

    def settings(self, url: HdfsUrl) -> dict[str, str]:
        """Return settings of Hadoop's client: those of the folder, and the name service."""
        found = _site_settings(self.hadoop_conf_dir)
        if self.hdfs_namenodes:
            names = {f"nn{n}": node for n, node in enumerate(self.hdfs_namenodes, 1)}
            found[f"dfs.ha.namenodes.{url.service}"] = ",".join(names)
            for name, node in names.items():
                found[f"dfs.namenode.rpc-address.{url.service}.{name}"] = node
        return found

    def name_nodes(self, url: HdfsUrl) -> list[str]:
        """Return the name nodes (`host:port`) that a URL means."""
        settings = self.settings(url)
        names = settings.get(f"dfs.ha.namenodes.{url.service}", "")
        found = [
            settings.get(f"dfs.namenode.rpc-address.{url.service}.{name.strip()}", "")
            for name in names.split(",")
            if name.strip()
        ]
        if ":" in url.authority or not any(found):
            return [url.authority if ":" in url.authority else f"{url.authority}:{_PORT}"]
        return [node for node in found if node]

    def address(self, url: HdfsUrl) -> str:
        """Return the URL that the client takes: a name without a port is a service only where its
        name nodes are told.
        """
        if self.settings(url).get(f"dfs.ha.namenodes.{url.service}"):
            return f"{_SCHEME}{url.authority}"
        return f"{_SCHEME}{self.name_nodes(url)[0]}"

    def _set(self) -> Mapping[str, object]:
        return {
            "hdfs.user": self.hdfs_user,
            "hdfs.namenodes": self.hdfs_namenodes,
            "hadoop.conf.dir": self.hadoop_conf_dir,
        }


def refuse_kerberos(settings: Mapping[str, str]) -> None:
    """Refuse a cluster that wants Kerberos.

    Raises:
        ConfigError: `hdfs.kerberos`.
    """
    if settings.get("hadoop.security.authentication", "simple").lower() != "simple":
        raise ConfigError(
            "hdfs.kerberos",
            "the settings ask for Kerberos, expected simple authentication: Kerberos is not "
            "supported",
            fix="Name a folder whose `core-site.xml` has `hadoop.security.authentication` = "
            "`simple`, or leave `hadoop.conf.dir` out.",
            config_path="hadoop.conf.dir",
        )


def _site_settings(folder: str) -> dict[str, str]:
    """Return the settings of the files of a folder.

    Raises:
        ConfigError: `hdfs.bad_settings`: it has none, or they cannot be read.
    """
    if not folder:
        return {}
    found: dict[str, str] = {}
    files = [Path(folder) / name for name in ("core-site.xml", "hdfs-site.xml")]
    there = [file for file in files if file.is_file()]
    try:
        for file in there:
            for item in ET.parse(file).getroot().iter("property"):  # noqa: S314 - of the worker's own
                found[(item.findtext("name") or "").strip()] = (
                    item.findtext("value") or ""
                ).strip()
    except (OSError, ET.ParseError) as error:
        raise _bad_settings(f"{folder}: {error}") from error
    if not there:
        raise _bad_settings(f"{folder} has no core-site.xml and no hdfs-site.xml")
    return found


def _bad_settings(text: str) -> ConfigError:
    return ConfigError(
        "hdfs.bad_settings",
        text,
        fix="Set `hadoop.conf.dir` to the folder of the cluster's client settings, on all workers.",
        config_path="hadoop.conf.dir",
    )


def _has_port(authority: str) -> bool:
    """Return whether a host, and the port behind it, if there is one, can be."""
    try:
        parts = urlsplit(f"//{authority}")
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
