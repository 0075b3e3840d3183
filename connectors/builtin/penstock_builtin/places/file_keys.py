"""The key `file` under the name that RocketMQ Connect gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock_connector import ConfigError

if TYPE_CHECKING:
    from penstock_builtin.file_sink.config import FileSinkConfig
    from penstock_builtin.file_source.config import FileSourceConfig


def take_filename(config: FileSourceConfig | FileSinkConfig) -> None:
    """Let `filename` be `file`.

    Raises:
        ConfigError: `config.contradiction`: both are set.
    """
    if config.filename and config.file:
        raise ConfigError(
            "config.contradiction",
            "`file` and `filename` are two names of one key",
            fix="Remove `filename`.",
            config_path="filename",
        )
    if config.filename:
        object.__setattr__(config, "file", config.filename)  # the configuration is being made
