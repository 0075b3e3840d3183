"""Redaction of configurations: which values are secrets by key name or by form. Pure.

Secrets belong into references (`${file:…}`), which may be shown. A user may have written a secret
in plain text all the same. So shown configurations are redacted by the name of the key and by the
form of the value (invariant 9).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

REDACTED: Final = "***"

# `s3.credentials` and `gcs.credentials` are choices: where a key comes from
_KEY: Final = re.compile(
    r"passw(or)?d|passphrase|pwd|secret|token|(?<!s3\.)(?<!gcs\.)credential|jaas|api[._-]?key|access[._-]?key"
    r"|private[._-]?key|(^|\.)(sftp|ssh|gcs|keystore)\.key$|auth(orization)?$|basic\.auth"
    r"|^replay\.(set|edits)$",  # values of rows: readers of configurations may not read those
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"\$\{[^{}$]*\}")
# Values are long at worst, and chosen by users: each pattern takes linear time (invariant 12).
_WORD: Final = re.compile(r"[^\s?#]+")
_USER: Final = re.compile(r"://[^/:@]*:")
_HEADER: Final = re.compile(
    r"((?:authorization|cookie|x-api-key|x-auth-token)\s*:\s*)([^,;|\n]+)", re.IGNORECASE
)
_PARAMETER: Final = re.compile(
    r"((?:passw(?:or)?d|pwd|secret|token|api_?key|access_?key|signature)\s*=\s*)([^&;,\s]+)",
    re.IGNORECASE,
)


def is_sensitive_key(key: str) -> bool:
    """Whether the name of a key indicates a secret."""
    return _KEY.search(key) is not None


def redact_value(key: str, value: str, *, sensitive: bool = False) -> str:
    """Return a value with its secrets replaced by `***`. References are kept."""
    if value.startswith("${") and _REFERENCE.fullmatch(value):
        return value
    if sensitive or is_sensitive_key(key):
        return REDACTED
    # a shortcut for long lists of connectors: most values have none of these characters
    if "@" in value:
        value = _WORD.sub(_without_password, value)
    if ":" in value:
        value = _HEADER.sub(rf"\1{REDACTED}", value)
    if "=" in value:
        value = _PARAMETER.sub(rf"\1{REDACTED}", value)
    return value


def is_redacted(key: str, value: str, *, sensitive: bool = False) -> bool:
    """Whether a value has `***` in the place of a secret, as `redact_value` returns it."""
    if value == REDACTED:
        return sensitive or is_sensitive_key(key)
    found = [word[slice(*span)] for word in _WORD.findall(value) if (span := _password(word))]
    found += [header for _, header in _HEADER.findall(value)]
    found += [parameter for _, parameter in _PARAMETER.findall(value)]
    return REDACTED in found


@dataclass(frozen=True, slots=True)
class ConfigDifference:
    """A key that differs between two versions of a configuration; None where it is absent.
    `redacted`: a secret was removed from `before` or `after`.
    """

    key: str
    before: str | None
    after: str | None
    redacted: bool = False


def compare_configs(
    before: Mapping[str, str], after: Mapping[str, str], sensitive: Collection[str] = ()
) -> list[ConfigDifference]:
    """Return the differences, ordered by key, with secrets redacted (invariant 9). A changed secret
    is reported as changed, without its values.
    """
    found = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        secret = key in sensitive
        old_shown = None if old is None else redact_value(key, old, sensitive=secret)
        new_shown = None if new is None else redact_value(key, new, sensitive=secret)
        redacted = (old_shown, new_shown) != (old, new)
        found.append(ConfigDifference(key, old_shown, new_shown, redacted))
    return found


def _without_password(found: re.Match[str]) -> str:
    word = found[0]
    span = _password(word)
    return word if span is None else f"{word[: span[0]]}{REDACTED}{word[span[1] :]}"


def _password(word: str) -> tuple[int, int] | None:
    """Return the span of the password of a URL. It ends at the last `@`: users write passwords with
    unescaped `@` and `/`.
    """
    end = word.rfind("@")
    user = _USER.search(word, 0, max(end, 0))
    return None if user is None or user.end() == end else (user.end(), end)
