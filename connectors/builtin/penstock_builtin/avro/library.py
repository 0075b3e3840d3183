"""fastavro, where it is installed."""

from __future__ import annotations

from typing import Any

from penstock_connector import ConfigError


def fastavro() -> Any:
    """Return the library.

    Raises:
        ConfigError: `file.no_avro`.
    """
    try:
        import fastavro as library  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(
            "file.no_avro",
            "the library that reads and writes Avro is not installed",
            fix="pip install 'penstock[avro]'",
            config_path="format",
        ) from error
    return library
