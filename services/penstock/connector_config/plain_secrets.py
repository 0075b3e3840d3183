"""Warnings of passwords that stand in a configuration as they are. Pure.

Such a configuration works. But whoever reads the file, its history or its backups has the password,
and a cluster stores it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from penstock.model.config_redaction import REDACTED, redact_value
from penstock.model.errors import Diagnostic, ErrorClass, Severity

_NAMED_BY_USER: Final = ("transforms.", "predicates.", "tests.", "replay.")
"""Keys whose names are of the user: `transforms.token.type` is not a token."""

_CHOICES: Final = frozenset({"", "true", "false", "none"})
"""Values of keys that only sound like secrets, such as `basic.auth=none`."""


def find_plain_secrets(
    config: Mapping[str, str], secret_keys: Collection[str] = ()
) -> Iterator[Diagnostic]:
    """Yield a warning for each secret in the text of a configuration.

    Args:
        config: The configuration, with its references.
        secret_keys: The keys that plugins declare as secrets. Others are found by their names, and
            passwords in URLs by their form.
    """
    for key, value in config.items():
        is_secret = key in secret_keys
        is_named_by_user = key.startswith(_NAMED_BY_USER) and not is_secret
        if is_named_by_user or value.lower() in _CHOICES or "${" in value:
            continue
        shown = redact_value(key, value, sensitive=is_secret)
        if shown != value:  # `***` stays as it is: a gateway reads it as the stored secret
            yield _warning(key, is_whole=shown == REDACTED)


def _warning(key: str, *, is_whole: bool) -> Diagnostic:
    name = "".join(one if one.isalnum() else "_" for one in key).upper()
    what = "has its secret" if is_whole else "has a password in its value"
    return Diagnostic(
        "config.plain_secret",
        f"`{key}` {what} as plain text: whoever reads the file, its history or a backup has it",
        ErrorClass.CONFIG,
        Severity.WARNING,
        fix=f"Write ${{env:{name}}}, set that variable where the workers run, and in their file "
        f"`config.providers=env` and `config.providers.env.param.allowlist.pattern={name}`; or use "
        "${file:…}, ${dir:…} or ${vault:…} of another provider.",
        config_path=key,
    )
