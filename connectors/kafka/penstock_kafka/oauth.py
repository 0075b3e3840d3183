"""Logins by tokens (OAUTHBEARER): the keys of Kafka's clients in Java as settings of librdkafka.

Where tokens come from is named by a class of Java, `sasl.oauthbearer.jwt.retriever.class`:

| class | here |
|---|---|
| `ClientCredentialsJwtRetriever` | librdkafka requests one with the id and secret of the client |
| `JwtBearerJwtRetriever` | librdkafka requests one with an assertion of a file, or its own |
| `FileJwtRetriever` | the token is read from a file whenever the client needs one |
| `DefaultJwtRetriever` | the last one where the URL is a file's, else the first |
"""

from __future__ import annotations

import base64
import json
import math
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock_connector import ConfigError

PREFIX: Final = "sasl.oauthbearer."
URL: Final = f"{PREFIX}token.endpoint.url"
CLIENT_ID: Final = f"{PREFIX}client.credentials.client.id"
CLIENT_SECRET: Final = f"{PREFIX}client.credentials.client.secret"
SCOPE: Final = f"{PREFIX}scope"
SUBJECT: Final = f"{PREFIX}sub.claim.name"
URL_ENCODES: Final = f"{PREFIX}header.urlencode"
RETRIEVER: Final = f"{PREFIX}jwt.retriever.class"
ASSERTION: Final = f"{PREFIX}assertion."

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
_DEFAULT: Final = "DefaultJwtRetriever"
_CREDENTIALS: Final = "ClientCredentialsJwtRetriever"
_FILE: Final = "FileJwtRetriever"
_BEARER: Final = "JwtBearerJwtRetriever"
_RETRIEVERS: Final = (_DEFAULT, _CREDENTIALS, _FILE, _BEARER)

_MAX_TOKEN_BYTES: Final = 1 << 20

Token = tuple[str, float, str, dict[str, str]]
"""A token, the time at which it ends, whose it is, and extensions: as the client takes it."""


def _whole(text: str) -> str:
    return str(int(text))


def _choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return parse


_ASSERTION_KEYS: Final[Mapping[str, tuple[str, Callable[[str], str], str]]] = {
    "algorithm": ("algorithm", _choice("RS256", "ES256"), "RS256 or ES256"),
    "private.key.file": ("private.key.file", str, "a file"),
    "private.key.passphrase": ("private.key.passphrase", str, "a text"),
    "template.file": ("jwt.template.file", str, "a file"),
    "claim.aud": ("claim.aud", str, "a text"),
    "claim.iss": ("claim.iss", str, "a text"),
    "claim.sub": ("claim.sub", str, "a text"),
    "claim.exp.seconds": ("claim.exp.seconds", _whole, "a whole number"),
    "claim.nbf.seconds": ("claim.nbf.seconds", _whole, "a whole number"),
    "claim.jti.include": ("claim.jti.include", _choice("true", "false"), "true or false"),
}
"""Keys of an assertion that is signed here: their names in librdkafka, and their values."""

ASSERTION_KEYS: Final = ("file", *_ASSERTION_KEYS)
ASSERTION_FILES: Final = ("file", "private.key.file", "template.file")


@dataclass(frozen=True, slots=True)
class OAuthLogin:
    """A login by tokens.

    Attributes:
        keys: The keys `sasl.oauthbearer.…` that are set.
        options: The options of `sasl.jaas.config`; keys come before them.
    """

    keys: Mapping[str, str] = field(repr=False)
    options: Mapping[str, str] = field(repr=False)

    def settings(self) -> dict[str, Any]:
        """Return the settings of a client.

        Raises:
            ConfigError: `config.missing`, `config.invalid_value`, `config.conflict`, `kafka.token`.
        """
        retriever, url = self._retriever(), self.keys.get(URL, "")
        if not url:
            raise _missing(URL)
        found: dict[str, Any] = {"sasl.mechanism": "OAUTHBEARER"}
        if retriever == _FILE:
            return found | {"oauth_cb": self._file_reader()}
        found |= {"sasl.oauthbearer.method": "oidc", URL: url}
        found |= self._assertion() if retriever == _BEARER else self._credentials()
        if scope := self.keys.get(SCOPE, "") or self.options.get("scope", ""):
            found[SCOPE] = scope
        if claim := self.keys.get(SUBJECT):
            found[SUBJECT] = claim
        if extensions := self._extensions():
            pairs = (f"{name}={text}" for name, text in extensions.items())
            found["sasl.oauthbearer.extensions"] = ",".join(pairs)
        return found

    def unused_keys(self) -> dict[str, str]:
        """Return the keys that the chosen way to get tokens does not use, and why."""
        retriever = self._retriever()
        used = {RETRIEVER, URL, SUBJECT}
        why = f"`{RETRIEVER}` is {retriever}"
        if retriever != _FILE:
            used.add(SCOPE)
        if retriever == _CREDENTIALS:
            used |= {CLIENT_ID, CLIENT_SECRET, URL_ENCODES}
        if retriever == _BEARER and self.keys.get(f"{ASSERTION}file"):
            used.add(f"{ASSERTION}file")
            why = f"`{ASSERTION}file` has the whole assertion"
        elif retriever == _BEARER:
            used |= {f"{ASSERTION}{name}" for name in _ASSERTION_KEYS}
        return {name: why for name in self.keys if name not in used}

    def token_file(self) -> str:
        """Return the file of the token; empty where it comes from a server."""
        parts = urllib.parse.urlsplit(self.keys.get(URL, ""))
        return urllib.parse.unquote(parts.path) if parts.scheme.lower() == "file" else ""

    def _retriever(self) -> str:
        name = self.keys.get(RETRIEVER, _DEFAULT)
        short, is_file = name.removeprefix(_PACKAGE), bool(self.token_file())
        if short not in _RETRIEVERS:
            raise ConfigError(
                "config.invalid_value",
                f"`{RETRIEVER}` is {name[:200]!r}, a class of Java that would say who logs in",
                fix=f"Use one of Kafka's own: {', '.join(_RETRIEVERS)}.",
                config_path=RETRIEVER,
            )
        if short == _DEFAULT:
            return _FILE if is_file else _CREDENTIALS
        if (short == _FILE) is not is_file and self.keys.get(URL):
            raise ConfigError(
                "config.conflict",
                f"`{RETRIEVER}` is {short}, and `{URL}` is {'' if is_file else 'not '}a file's",
                fix=f"Set `{URL}` to {'https://…' if is_file else 'file:///…'}, or remove "
                f"`{RETRIEVER}`.",
                config_path=URL,
            )
        return short

    def _credentials(self) -> dict[str, str]:
        for name in ("file", "claim.iss"):
            if self.keys.get(f"{ASSERTION}{name}"):
                raise ConfigError(
                    "config.conflict",
                    f"`{ASSERTION}{name}` makes Kafka's client show an assertion instead of its "
                    f"secret, which is not offered with `{RETRIEVER}={_CREDENTIALS}`",
                    fix=f"Set `{RETRIEVER}={_BEARER}`, or remove the key and set "
                    f"`{CLIENT_SECRET}`.",
                    config_path=f"{ASSERTION}{name}",
                )
        client = self.keys.get(CLIENT_ID, "") or self.options.get("clientId", "")
        secret = self.keys.get(CLIENT_SECRET, "")
        secret = secret or self.options.get("clientSecret", "")
        if not client:
            raise _missing(CLIENT_ID)
        if self.keys.get(URL_ENCODES) == "true":
            client, secret = map(urllib.parse.quote_plus, (client, secret))
        return {"sasl.oauthbearer.client.id": client, "sasl.oauthbearer.client.secret": secret}

    def _assertion(self) -> dict[str, str]:
        found = {"sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}
        if file := self.keys.get(f"{ASSERTION}file", ""):
            return found | {f"{ASSERTION}file": file}
        if not self.keys.get(f"{ASSERTION}private.key.file"):
            raise _missing(f"{ASSERTION}private.key.file")
        for name, (theirs, parse, expected) in _ASSERTION_KEYS.items():
            key = f"{ASSERTION}{name}"
            if text := self.keys.get(key, ""):
                found[f"{ASSERTION}{theirs}"] = _parsed(key, text, parse, expected)
        return found

    def _extensions(self) -> dict[str, str]:
        start = "extension_"
        return {
            name.removeprefix(start): text
            for name, text in self.options.items()
            if name.startswith(start)
        }

    def _file_reader(self) -> Callable[[str], Token]:
        """Return what the client calls for a token."""
        file, extensions = Path(self.token_file()), self._extensions()
        claim = self.keys.get(SUBJECT, "") or "sub"

        def read(_config: str) -> Token:
            token, ends_at, subject = read_token(file, claim)
            return token, ends_at, subject, extensions

        return read


def read_token(file: Path, claim: str) -> tuple[str, float, str]:
    """Return the token of a file, the time at which it ends, and whose it is by a claim of it.

    Raises:
        ConfigError: `kafka.token`.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_TOKEN_BYTES + 1)
    except OSError as error:
        raise _no_token(file, f"cannot be read: {error.strerror}") from None
    try:
        token = content.decode("ascii").strip()
        middle = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
        ends_at, subject = float(claims["exp"]), claims[claim]
    except (ValueError, LookupError, TypeError, RecursionError):
        why = f"has no token (JWT) with the claims `exp` and `{claim}`"
        raise _no_token(file, why) from None
    if len(content) > _MAX_TOKEN_BYTES or not isinstance(subject, str) or not subject:
        raise _no_token(file, f"has no token with the name of a user in its claim `{claim}`")
    if not math.isfinite(ends_at) or ends_at <= time.time():
        raise _no_token(file, "has a token that has ended")
    return token, ends_at, subject


def _parsed(key: str, text: str, parse: Callable[[str], str], expected: str) -> str:
    try:
        return parse(text)
    except ValueError:
        raise ConfigError(
            "config.invalid_value",
            f"`{key}` is {text[:100]!r}",
            fix=f"Use {expected}.",
            config_path=key,
        ) from None


def _missing(name: str) -> ConfigError:
    return ConfigError(
        "config.missing",
        f"`sasl.mechanism=OAUTHBEARER` needs `{name}`",
        fix=f"Set `{name}`.",
        config_path=name,
    )


def _no_token(file: Path, why: str) -> ConfigError:
    return ConfigError(
        "kafka.token",
        f"`{URL}`: {file} {why}",
        fix="Check what writes the file: it must have a valid token whenever a client logs in.",
        config_path=URL,
    )
