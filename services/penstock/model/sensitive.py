"""Which values of a configuration are secrets, as far as names and forms tell. Pure.

Secrets belong into references (`${file:…}`), which may be shown. A person may have written one down
all the same, so what is shown to compare configurations is masked by name of the key and by form
of the value (invariant 9).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from penstock.model.connector import Difference

MASK: Final = "***"

_KEY: Final = re.compile(
    r"passw(or)?d|passphrase|pwd|secret|token|credential|jaas|api[._-]?key|access[._-]?key"
    r"|private[._-]?key|(^|\.)(sftp|ssh|keystore)\.key$|auth(orization)?$|basic\.auth"
    r"|^replay\.(set|edits)$",  # parts of rows, which who looks at configurations need not see
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"\$\{[^{}$]*\}")
# Values may be long, and who configures chooses them: each form takes a time that grows with the
# length alone (invariant 12).
_WORD: Final = re.compile(r"[^\s?#]+")
_USER: Final = re.compile(r"://[^/:@]*:")
_HEADER: Final = re.compile(
    r"((?:authorization|cookie|x-api-key|x-auth-token)\s*:\s*)([^,;|\n]+)", re.IGNORECASE
)
_PARAMETER: Final = re.compile(
    r"((?:passw(?:or)?d|pwd|secret|token|api_?key|access_?key|signature)\s*=\s*)([^&;,\s]+)",
    re.IGNORECASE,
)


def is_sensitive(key: str) -> bool:
    """Tell whether the name of a key says that its value is a secret."""
    return _KEY.search(key) is not None


def shown(key: str, value: str, *, sensitive: bool = False) -> str:
    """Return a value without what is secret in it."""
    if value.startswith("${") and _REFERENCE.fullmatch(value):
        return value
    if sensitive or is_sensitive(key):
        return MASK
    # lists of connectors have many values: most have nothing that a form could begin with
    if "@" in value:
        value = _WORD.sub(_without_password, value)
    if ":" in value:
        value = _HEADER.sub(rf"\1{MASK}", value)
    if "=" in value:
        value = _PARAMETER.sub(rf"\1{MASK}", value)
    return value


def is_mask(key: str, value: str, *, sensitive: bool = False) -> bool:
    """Tell whether a value has the mask in the place of a secret."""
    if value == MASK:
        return sensitive or is_sensitive(key)
    found = [word[slice(*span)] for word in _WORD.findall(value) if (span := _password(word))]
    found += [header for _, header in _HEADER.findall(value)]
    found += [parameter for _, parameter in _PARAMETER.findall(value)]
    return MASK in found


def differences(
    before: Mapping[str, str], after: Mapping[str, str], sensitive: Collection[str] = ()
) -> list[Difference]:
    """Return what differs, ordered by key, secrets masked (invariant 9). A secret that changed is
    told as changed, not how.
    """
    found = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        hidden = key in sensitive
        old_shown = None if old is None else shown(key, old, sensitive=hidden)
        new_shown = None if new is None else shown(key, new, sensitive=hidden)
        masked = (old_shown, new_shown) != (old, new)
        found.append(Difference(key, old_shown, new_shown, masked))
    return found


def _without_password(found: re.Match[str]) -> str:
    word = found[0]
    span = _password(word)
    return word if span is None else f"{word[: span[0]]}{MASK}{word[span[1] :]}"


def _password(word: str) -> tuple[int, int] | None:
    """Return where a URL has its password: to the last `@`, for it may have `@` and `/`, which
    nobody should write, and people do.
    """
    end = word.rfind("@")
    user = _USER.search(word, 0, max(end, 0))
    return None if user is None or user.end() == end else (user.end(), end)
