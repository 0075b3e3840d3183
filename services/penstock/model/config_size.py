"""How large a configuration may be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from penstock.model.errors import ConfigError

MOST_KEYS: Final = 5_000
MOST_BYTES: Final = 512 << 10
"""Bounds of one configuration (invariant 12), in the form that is stored. A write holds it twice,
as what is and as a version of the history, and etcd takes 1.5 MB."""


def check_size(name: str, config: Mapping[str, str]) -> None:
    """Refuse a configuration that is too large, before anything is looked for in it.

    Raises:
        ConfigError: `config.too_large`.
    """
    check_keys(name, len(config))
    size = len(json.dumps(dict(config), ensure_ascii=False, separators=(",", ":")).encode())
    if size > MOST_BYTES:
        raise _too_large(name, f"{len(config)} keys and {size} bytes")


def check_keys(name: str, count: int) -> None:
    """Refuse a configuration with too many keys, before its values are looked at.

    Raises:
        ConfigError: `config.too_large`.
    """
    if count > MOST_KEYS:
        raise _too_large(name, f"{count} keys")


def _too_large(name: str, found: str) -> ConfigError:
    return ConfigError(
        "config.too_large",
        f"the configuration of {name} has {found}",
        fix=f"Stay within {MOST_KEYS} keys and {MOST_BYTES} bytes; put large texts into files.",
    )
