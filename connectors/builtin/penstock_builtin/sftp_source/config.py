"""The configuration of `sftp-source`."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from penstock_builtin.file_source.keys import ReadingKeys
from penstock_builtin.places.sftp_keys import SftpKeys
from penstock_connector import ConfigError, key


@dataclass(frozen=True)
class SftpSourceConfig(SftpKeys, ReadingKeys):
    """What `sftp-source` reads, and how."""

    path: tuple[str, ...] = key(
        doc="Absolute paths of files or folders on the server, or patterns.", required=True
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

    @property
    def patterns(self) -> tuple[str, ...]:
        """Paths, folders and patterns, each once."""
        return tuple(dict.fromkeys(posixpath.normpath(path) for path in self.path))
