"""URLs: what is refused of them, and what is added to them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urljoin, urlsplit

import httpcore

from penstock_connector import ConfigError

Origin = tuple[bool, str, int]
"""Whether it is TLS, host and port."""

_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class Address:
    """An address that can be asked.

    Attributes:
        tls: It begins with https.
        host: Name or number of the host.
        port: Its port.
        target: Path and query, as they go into the request.
    """

    tls: bool
    host: str
    port: int
    target: str

    @property
    def origin(self) -> Origin:
        """What must be the same for credentials to be sent along."""
        return self.tls, self.host, self.port

    @property
    def shown(self) -> str:
        """The address for people: without the query, which may have a key in it."""
        path = self.target.partition("?")[0]
        return f"{'https' if self.tls else 'http'}://{self._bracketed}:{self.port}{path}"

    @property
    def authority(self) -> str:
        """Host and port as they go into the request."""
        usual = self.port == (443 if self.tls else 80)
        return self._bracketed if usual else f"{self._bracketed}:{self.port}"

    def of_library(self) -> httpcore.URL:
        """Return it as the library knows it."""
        return httpcore.URL(
            scheme=b"https" if self.tls else b"http",
            host=self._bracketed.encode(),
            port=self.port,
            target=self.target.encode(),
        )

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def address_of(url: str, path: str = "url") -> Address:
    """Return what a URL says.

    Raises:
        ConfigError: `http.bad_url`.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _bad(path, str(error)) from None
    why = _why_refused(url, parts)
    if why:
        raise _bad(path, why)
    tls = parts.scheme == "https"
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    if parts.query:
        target += "?" + quote(parts.query, safe="/?%:@!$&'()*+,;=~[]")
    host = (parts.hostname or "").encode("idna").decode() if _is_name(parts) else parts.hostname
    return Address(tls, host or "", port or (443 if tls else 80), target)


def names_host(url: str) -> bool:
    """Return whether a template of a URL has nothing of a row in its host."""
    return "${" not in urlsplit(url).netloc


def _is_name(parts: SplitResult) -> bool:
    return ":" not in (parts.hostname or "")


def _why_refused(url: str, parts: SplitResult) -> str:
    if parts.scheme not in {"http", "https"}:
        return "it must begin with http:// or https://"
    if not parts.hostname:
        return "it names no host"
    if "@" in parts.netloc:
        return "it has credentials in it, and is shown to people: use auth.user and auth.password"
    if _UNSAFE.search(url):
        return "it has a space or a control character in it"
    return ""


def _bad(path: str, why: str) -> ConfigError:
    return ConfigError(
        "http.bad_url", f"`{path}` is no address: {why}", fix=f"Correct `{path}`.", config_path=path
    )


def with_query(url: str, pairs: dict[str, str]) -> str:
    """Return a URL with these parameters; one that it has already is replaced."""
    if not pairs:
        return url
    before, _, query = url.partition("?")
    kept = [(n, v) for n, v in parse_qsl(query, keep_blank_values=True) if n not in pairs]
    return f"{before}?{urlencode([*kept, *pairs.items()], quote_via=quote)}"


def query_of(text: str, path: str) -> dict[str, str]:
    """Return the parameters of `name=value&name=value`.

    Raises:
        ConfigError: `config.invalid_value`.
    """
    try:
        return dict(parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text)))
    except ValueError:
        raise ConfigError(
            "config.invalid_value",
            f"`{path}` is not written as name=value&name=value",
            fix=f"Correct `{path}`; other characters are written as %XX.",
            config_path=path,
        ) from None


def joined(base: str, link: str) -> str:
    """Return a link as a full URL, seen from another."""
    return urljoin(base, link).partition("#")[0]
