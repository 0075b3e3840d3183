"""Keys of Confluent's connector that load and do nothing here. Each has its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock_connector import key
from penstock_connector.reach import Reaching

_OF_HOST: Final = "rows are gathered by the host, and written when it ends its transaction"
_JAVA: Final = "it chooses a part of Java's TLS"
_SSL: Final = "elastic.https.ssl."


def _without_effect(name: str, why: str) -> str:
    doc = f"No effect: {why}."
    found: str = key("", doc=doc, name=name, no_effect=why, group="Without effect")
    return found


@dataclass(frozen=True)
class KeysWithoutEffect(Reaching):
    """Keys of what another part of Penstock, or OpenSSL, decides."""

    max_buffered_records: str = _without_effect("max.buffered.records", _OF_HOST)
    linger_ms: str = _without_effect("linger.ms", _OF_HOST)
    flush_synchronously: str = _without_effect("flush.synchronously", _OF_HOST)
    ssl_protocol: str = _without_effect(f"{_SSL}protocol", _JAVA)
    ssl_enabled_protocols: str = _without_effect(f"{_SSL}enabled.protocols", _JAVA)
    ssl_provider: str = _without_effect(f"{_SSL}provider", _JAVA)
    ssl_cipher_suites: str = _without_effect(f"{_SSL}cipher.suites", _JAVA)
    ssl_keymanager_algorithm: str = _without_effect(f"{_SSL}keymanager.algorithm", _JAVA)
    ssl_trustmanager_algorithm: str = _without_effect(f"{_SSL}trustmanager.algorithm", _JAVA)
    ssl_secure_random: str = _without_effect(f"{_SSL}secure.random.implementation", _JAVA)
