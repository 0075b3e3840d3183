"""Who we are at a schema registry, and by which way it is reached."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from penstock_converters import InvalidConverterError
from penstock_converters.config_values import Config, ConverterKey, invalid_value, read_number
from penstock_converters.schema_registry.client import basic_login
from penstock_converters.schema_registry.tokens import TokenOptions
from penstock_values.jaas import parse_jaas

_BASIC: Final = "basic.auth.credentials.source"
_USER: Final = "basic.auth.user.info"
_JAAS: Final = "sasl.jaas.config"
_BEARER: Final = "bearer.auth.credentials.source"
_TOKEN: Final = "bearer.auth.token"  # noqa: S105 - the name of a key
ISSUER: Final = "bearer.auth.issuer.endpoint.url"
_CLIENT: Final = "bearer.auth.client.id"
_SECRET: Final = "bearer.auth.client.secret"  # noqa: S105 - as above
_BUFFER: Final = "bearer.auth.cache.expiry.buffer.seconds"
PROXY: Final = "proxy.host"
_PROXY_PORT: Final = "proxy.port"

_BASIC_SOURCES: Final = ("URL", "USER_INFO", "SASL_INHERIT")
_BEARER_SOURCES: Final = ("STATIC_TOKEN", "OAUTHBEARER")
_HEADERS: Final = {
    "bearer.auth.logical.cluster": "target-sr-cluster",
    "bearer.auth.identity.pool.id": "Confluent-Identity-Pool-Id",
}
"""Headers beside a token."""

LOGIN_KEYS: Final = (
    ConverterKey(_BASIC, default="URL", choices=_BASIC_SOURCES,
              doc="Where user and password are: in the URL, in `basic.auth.user.info`, or in "
              "`sasl.jaas.config` of the converter."),
    ConverterKey(_USER, "password", doc="`user:password`."),
    ConverterKey(_JAAS, "password", doc="A login with `username` and `password`, as brokers have "
              "it: `value.converter.sasl.jaas.config`."),
    ConverterKey(_BEARER, default="STATIC_TOKEN", choices=_BEARER_SOURCES,
              doc="Where the token is: in `bearer.auth.token`, or at an issuer, which is shown id "
              "and secret of a client."),
    ConverterKey(_TOKEN, "password", doc="A token."),
    ConverterKey(ISSUER, doc="URL of the issuer."),
    ConverterKey(_CLIENT, doc="Id of the client there."),
    ConverterKey(_SECRET, "password", doc="Its secret."),
    ConverterKey("bearer.auth.scope", doc="Scope of its tokens."),
    ConverterKey(_BUFFER, "int", 300, doc="Seconds before the end of a token at which another one "
              "is got; 80 % of its life at most."),
    ConverterKey("bearer.auth.logical.cluster", doc="Sent with a token: `target-sr-cluster`."),
    ConverterKey("bearer.auth.identity.pool.id", doc="Sent with a token: "
              "`Confluent-Identity-Pool-Id`."),
    ConverterKey(PROXY, doc="Host of an HTTP proxy before the registry; needs `proxy.port`."),
    ConverterKey(_PROXY_PORT, "int", doc="Its port."),
)  # fmt: skip


def read_user(config: Config) -> str:
    """Return `user:password`; empty where the URL has it, or no key.

    Raises:
        InvalidConverterError: `config.invalid_value`, `config.conflict`, `config.missing`.
    """
    source = config.get(_BASIC, "URL").strip().upper() or "URL"
    user = config.get(_USER, "")
    if source not in _BASIC_SOURCES:
        raise invalid_value(_BASIC, source, ", ".join(_BASIC_SOURCES))
    if config.get(_BASIC, "").strip() and config.get(_BEARER, "").strip():
        raise _conflict(
            f"`{_BASIC}` and `{_BEARER}` are set, and there is one login", _BEARER,
            "Remove one of them.",
        )  # fmt: skip
    if source == "SASL_INHERIT":
        return _inherited_user(config)
    if (source == "USER_INFO") != bool(user):
        raise _conflict(
            f"`{_BASIC}` is {source}, and `{_USER}` is {'set' if user else 'not set'}",
            _USER,
            f"Set `{_BASIC}=USER_INFO` and `{_USER}`, or none of them.",
        )
    return user


def _inherited_user(config: Config) -> str:
    text = config.get(_JAAS, "")
    if not text:
        raise _missing(_JAAS, f"`{_BASIC}` is SASL_INHERIT")
    try:
        options = parse_jaas(text).options
    except ValueError as error:
        raise InvalidConverterError(
            "config.invalid_value",
            f"`{_JAAS}` {error}",
            fix='Write …PlainLoginModule required username="…" password="…";.',
            config_path=_JAAS,
        ) from None
    if not options.get("username"):
        raise InvalidConverterError(
            "config.missing",
            f"`{_JAAS}` has no `username` and `password` to inherit",
            fix=f"Add them, or set `{_BASIC}=USER_INFO` and `{_USER}`.",
            config_path=_JAAS,
        )
    return f"{options['username']}:{options.get('password', '')}"


def read_headers(config: Config, user: str) -> dict[str, str]:
    """Return what is sent with each question. `user` is `user:password`, or empty.

    Raises:
        InvalidConverterError: `config.invalid_value`, `config.conflict`.
    """
    token = config.get(_TOKEN, "")
    if _bearer_source(config) == "OAUTHBEARER":
        return _beside_token(config)
    if token:
        return {"Authorization": f"Bearer {token}", **_beside_token(config)}
    return {"Authorization": basic_login(user)} if user else {}


def read_token_options(config: Config) -> TokenOptions | None:
    """Return the issuer of tokens; None where there is none.

    Raises:
        InvalidConverterError: `config.missing`, `config.invalid_value`, `config.conflict`.
    """
    if _bearer_source(config) != "OAUTHBEARER":
        for key in (ISSUER, _CLIENT, _SECRET):
            if config.get(key):
                raise _conflict(
                    f"`{key}` is set, and `{_BEARER}` is not OAUTHBEARER",
                    key,
                    f"Set `{_BEARER}=OAUTHBEARER`, or remove the key.",
                )
        return None
    for key in (ISSUER, _CLIENT, _SECRET):
        if not config.get(key):
            raise _missing(key, f"`{_BEARER}` is OAUTHBEARER")
    url = config[ISSUER].strip()
    if not is_url(url) or urlsplit(url).username is not None:
        raise invalid_value(ISSUER, url.rpartition("@")[2], "https://host/path, without a user")
    return TokenOptions(
        url,
        config[_CLIENT],
        config[_SECRET],
        config.get("bearer.auth.scope", ""),
        float(read_number(config, _BUFFER, 300, 0)),
    )


def read_proxy(config: Config) -> str:
    """Return the URL of a proxy; empty where there is none.

    Raises:
        InvalidConverterError: `config.invalid_value`.
    """
    host, port = proxy_host(config), config.get(_PROXY_PORT, "").strip()
    if not (host and port):
        return ""
    if not port.isdigit() or not 0 < int(port[:6]) < 65536:
        raise invalid_value(_PROXY_PORT, port, "a port, such as 3128")
    proxy = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if not is_url(proxy):
        raise invalid_value(PROXY, host, "the name of a host")
    return proxy


def proxy_host(config: Config) -> str:
    """Return the host of the proxy, which may be given as a URL."""
    text = config.get(PROXY, "").strip()
    return (urlsplit(text).hostname or "") if "://" in text else text


def unused_login_keys(config: Config) -> dict[str, str]:
    """Return the keys that do nothing without another one, and why."""
    found = dict[str, str]()
    if bool(config.get(PROXY)) != bool(config.get(_PROXY_PORT)):
        here, other = (PROXY, _PROXY_PORT) if config.get(PROXY) else (_PROXY_PORT, PROXY)
        found[here] = f"without `{other}`, the registry is reached directly"
    return found


def is_url(text: str) -> bool:
    """Return whether a text is a URL of HTTP with a host."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    is_http = parts.scheme in ("http", "https") and bool(parts.hostname)
    return is_http and len(text.split()) == 1


def _bearer_source(config: Config) -> str:
    source = config.get(_BEARER, "").strip().upper() or "STATIC_TOKEN"
    if source not in _BEARER_SOURCES:
        raise invalid_value(_BEARER, source, f"{' or '.join(_BEARER_SOURCES)}")
    return source


def _beside_token(config: Config) -> dict[str, str]:
    return {header: config[key] for key, header in _HEADERS.items() if config.get(key)}


def _missing(key: str, why: str) -> InvalidConverterError:
    return InvalidConverterError(
        "config.missing", f"{why}, and `{key}` is not set", fix=f"Set `{key}`.", config_path=key
    )


def _conflict(message: str, key: str, fix: str) -> InvalidConverterError:
    return InvalidConverterError("config.conflict", message, fix=fix, config_path=key)
