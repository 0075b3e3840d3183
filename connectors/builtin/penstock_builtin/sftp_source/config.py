"""The configuration of `sftp-source`."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from penstock_builtin.file_source.keys import ReadingKeys
from penstock_builtin.places.sftp_keys import SftpKeys
from penstock_connector import ConfigError, key
from penstock_connector.reach import Reaching


@dataclass(frozen=True)
class SftpSourceConfig(SftpKeys, ReadingKeys, Reaching):
    """What `sftp-source` reads, and how."""

    path: tuple[str, ...] = key(
        doc="Absolute paths of files, folders and patterns (`*`, `?`, `[…]`, `**`) on the server.",
        required=True,
    )
    list_interval: float = key(
        5.0, type="duration", doc="Time between two looks for new files and rows."
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        self.refuse_incomplete()
        for path in self.path:
            if not path.startswith("/"):
                raise ConfigError(
                    "config.invalid_value",
                    f"{path!r} is not absolute: a user's folder may be another one tomorrow",
                    fix="Begin it with a slash.",
                    config_path="path",
                )

    def require_reach(self) -> None:
        """Refuse a server, and files of this machine, that may not be reached."""
        self.reach.require_host(self.sftp_host, "sftp.host")
        self.reach.require_path(self.sftp_key_file, "sftp.key.file")
        self.reach.require_path(self.sftp_known_hosts, "sftp.known.hosts")

    @property
    def patterns(self) -> tuple[str, ...]:
        """Paths, folders and patterns, each once."""
        return tuple(dict.fromkeys(posixpath.normpath(path) for path in self.path))
