"""The keys of converters that ask a schema registry, as Confluent's converters name them."""

from __future__ import annotations

import secrets
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from penstock_converters import InvalidConverterError
from penstock_converters.registry_client import ClientOptions, basic_login, split_url
from penstock_values.security_stores import (
    STORE_TYPES,
    KeyStore,
    SecurityStoreError,
    TrustStore,
)

Config = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConverterKey:
    """A configuration key of a converter."""

    name: str
    type: Literal["string", "boolean", "int", "password"] = "string"
    default: Any = None
    doc: str = ""
    choices: tuple[str, ...] = ()


URL: Final = "schema.registry.url"
_STRATEGIES: Final = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
_SSL: Final = "schema.registry.ssl."
_HOST_CHECK: Final = f"{_SSL}endpoint.identification.algorithm"

REGISTRY_KEYS: Final = (
    ConverterKey(URL, doc="URLs of the registry, separated by commas: the next one is asked when "
              "one does not answer. `http://user:password@host` logs in."),
    ConverterKey("auto.register.schemas", "boolean", default=True,
              doc="Whether schemas of rows are registered."),
    ConverterKey("use.latest.version", "boolean", default=False,
              doc="Whether rows are written by the newest schema of their subject."),
    ConverterKey("latest.compatibility.strict", "boolean", default=True,
              doc="With `use.latest.version`: a column that the schema lacks is an error; else it "
              "is left out."),
    ConverterKey("latest.cache.ttl.sec", "int", -1,
              doc="Seconds for which the newest schema is remembered; -1: for ever."),
    ConverterKey("use.schema.id", "int", -1, doc="Id of the schema by which rows are written."),
    ConverterKey("id.compatibility.strict", "boolean", default=True,
              doc="As `latest.compatibility.strict`, for `use.schema.id`."),
    ConverterKey("normalize.schemas", "boolean", default=False,
              doc="Whether the registry compares schemas in their normal form."),
    ConverterKey("key.subject.name.strategy", default="TopicNameStrategy", choices=_STRATEGIES,
              doc="How the subject of keys is named; Confluent's class names work, too."),
    ConverterKey("value.subject.name.strategy", default="TopicNameStrategy", choices=_STRATEGIES,
              doc="How the subject of values is named."),
    ConverterKey("max.schemas.per.subject", "int", 1000, doc="Ids and schemas of the registry that "
              "are remembered."),
    ConverterKey("schemas.cache.config", "int", 1000, doc="Converted schemas that are remembered."),
    ConverterKey("basic.auth.credentials.source", default="URL", choices=("URL", "USER_INFO"),
              doc="Where user and password are: in the URL, or in `basic.auth.user.info`."),
    ConverterKey("basic.auth.user.info", "password", doc="`user:password`."),
    ConverterKey("bearer.auth.credentials.source", default="STATIC_TOKEN",
              choices=("STATIC_TOKEN",), doc="Where the token is: in `bearer.auth.token`."),
    ConverterKey("bearer.auth.token", "password", doc="A token."),
    ConverterKey(f"{_SSL}truststore.location", doc="File with the certificates that sign the "
              "registry's (PEM, PKCS12 or JKS). None: those of the system."),
    ConverterKey(f"{_SSL}truststore.type", choices=STORE_TYPES,
              doc="Its form; none: it is found out."),
    ConverterKey(f"{_SSL}truststore.password", "password", doc="Its password."),
    ConverterKey(f"{_SSL}truststore.certificates", doc="The certificates themselves, in PEM."),
    ConverterKey(f"{_SSL}keystore.location", doc="File with our certificate and key (PEM, PKCS12 "
              "or JKS)."),
    ConverterKey(f"{_SSL}keystore.type", choices=STORE_TYPES,
              doc="Its form; none: it is found out."),
    ConverterKey(f"{_SSL}keystore.password", "password", doc="Its password."),
    ConverterKey(f"{_SSL}keystore.certificate.chain", doc="The certificate itself (PEM), instead "
              "of a file."),
    ConverterKey(f"{_SSL}keystore.key", "password", doc="The key of that certificate (PEM)."),
    ConverterKey(f"{_SSL}key.password", "password", doc="Password of the key."),
    ConverterKey(_HOST_CHECK, default="https", doc="`https`: the certificate must name the "
              "registry's host; empty: it need not."),
    ConverterKey("http.connect.timeout.ms", "int", 5000, doc="Time to connect. Confluent's default "
              "is a minute."),
    ConverterKey("http.read.timeout.ms", "int", 15_000, doc="Time for an answer. Confluent's "
              "default is a minute."),
    ConverterKey("max.retries", "int", 2, doc="How often all URLs are called again. The task tries "
              "again after that, too."),
    ConverterKey("retries.wait.ms", "int", 500, doc="Pause before the first of them; each is twice "
              "as long as the one before."),
    ConverterKey("retries.max.wait.ms", "int", 5000, doc="The longest pause."),
)  # fmt: skip
"""Keys of all converters with a registry."""

REFUSED: Final[Mapping[str, str]] = {
    "apicurio.registry.url": f"Set `{URL}` to the same server's …/apis/ccompat/v7.",
    "use.schema.guid": "Use `use.schema.id`.",
    "use.latest.with.metadata": "Use `use.latest.version` or `use.schema.id`.",
    "context.name.strategy": "Name the context in the subject or the URL.",
    "rule.executors": "Rules of the registry are not run here: use transforms.",
    "rule.actions": "Rules of the registry are not run here: use transforms.",
    "key.schema.id.serializer": "Ids are written into messages only.",
    "value.schema.id.serializer": "Ids are written into messages only.",
    "bearer.auth.issuer.endpoint.url": "Get a token beforehand, and set `bearer.auth.token`.",
    "proxy.host": "A registry is reached directly.",
    "proxy.port": "A registry is reached directly.",
    "schema.backup.enabled": "Rows are what the messages say, without an envelope.",
}
"""Keys of Confluent's that would change what is written or read, and what to do instead."""

_NO_EFFECT: Final = {"schema.backup.enabled": "false"}
"""Values of refused keys that ask for nothing."""


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """What a registry is asked for.

    Attributes:
        tls: Returns how TLS is spoken; None: as the library does by itself.
        strategy: How a subject is named.
        latest_ttl_s: How long the newest schema is remembered; below 0: for ever.
        schema_id: The id of the schema to write by; below 0: none.
        max_schemas: Schemas that are remembered.
    """

    client: ClientOptions
    tls: Callable[[], ssl.SSLContext | None]
    is_key: bool = False
    strategy: str = "TopicNameStrategy"
    registers: bool = True
    uses_latest: bool = False
    latest_strict: bool = True
    latest_ttl_s: float = -1.0
    schema_id: int = -1
    id_strict: bool = True
    normalizes: bool = False
    max_schemas: int = 1000


def read_registry_options(config: Config, *, is_key: bool) -> RegistryOptions:
    """Return the options of a registry.

    Raises:
        InvalidConverterError: `config.missing`, `config.invalid_value`, `config.conflict`, …
    """
    _check_choice(config)
    strategies = {side: _strategy(config, f"{side}.subject.name.strategy") for side in _SIDES}
    return RegistryOptions(
        client=_client_options(config),
        tls=_tls(config),
        is_key=is_key,
        strategy=strategies["key" if is_key else "value"],
        registers=read_flag(config, "auto.register.schemas", default=True),
        uses_latest=read_flag(config, "use.latest.version", default=False),
        latest_strict=read_flag(config, "latest.compatibility.strict", default=True),
        latest_ttl_s=float(read_number(config, "latest.cache.ttl.sec", -1, -1)),
        schema_id=read_number(config, "use.schema.id", -1, -1),
        id_strict=read_flag(config, "id.compatibility.strict", default=True),
        normalizes=read_flag(config, "normalize.schemas", default=False),
        max_schemas=read_number(config, "max.schemas.per.subject", 1000, 1),
    )


_SIDES: Final = ("key", "value")


def _check_choice(config: Config) -> None:
    """Refuse a schema to write by beside one that is registered: it would have no effect."""
    if not read_flag(config, "auto.register.schemas", default=True):
        return
    latest = read_flag(config, "use.latest.version", default=False)
    by_id = read_number(config, "use.schema.id", -1, -1) >= 0
    if latest or by_id:
        key = "use.latest.version" if latest else "use.schema.id"
        raise InvalidConverterError(
            "config.conflict",
            f"`{key}` has no effect while schemas of rows are registered",
            fix="Set `auto.register.schemas=false`, or remove the key.",
            config_path=key,
        )


def registry_hosts(config: Config) -> tuple[str, ...]:
    """Return the hosts of a converter's registry, and none for one without."""
    urls = [one.strip() for one in config.get(URL, "").split(",")]
    return tuple(urlsplit(one).hostname or "" for one in urls if one)


def registry_files(config: Config) -> tuple[str, ...]:
    """Return the keys of the files that a converter reads."""
    names = (f"{_SSL}truststore.location", f"{_SSL}keystore.location")
    return tuple(name for name in names if config.get(name))


def read_flag(config: Config, key: str, *, default: bool) -> bool:
    """Return a key that is true or false."""
    text = config.get(key, str(default)).lower()
    if text not in {"true", "false"}:
        raise invalid_value(key, text, "true or false")
    return text == "true"


def read_number(config: Config, key: str, default: int, lowest: int) -> int:
    """Return a whole number, `lowest` or more."""
    text = config.get(key, str(default)).strip()
    if not text.removeprefix("-").isdigit() or not text.isascii() or int(text[:12]) < lowest:
        raise invalid_value(key, text, f"a whole number, {lowest} or more")
    return int(text[:12])


def invalid_value(key: str, value: str, expected: str) -> InvalidConverterError:
    """Return the error for a value that a key cannot have."""
    return InvalidConverterError(
        "config.invalid_value",
        f"`{key}` is {value[:100]!r}",
        config_path=key,
        fix=f"Use {expected}.",
    )


def _strategy(config: Config, key: str) -> str:
    text = config.get(key, _STRATEGIES[0])
    name = text.removeprefix("io.confluent.kafka.serializers.subject.")
    if name == "AssociatedNameStrategy":  # the default of newer converters, as the topic's name
        name = _STRATEGIES[0]
    if name not in _STRATEGIES:
        raise invalid_value(key, text, ", ".join(_STRATEGIES))
    return name


def _client_options(config: Config) -> ClientOptions:
    texts = [one.strip().rstrip("/") for one in config.get(URL, "").split(",") if one.strip()]
    user_info, token = config.get("basic.auth.user.info", ""), config.get("bearer.auth.token", "")
    source = config.get("basic.auth.credentials.source", "URL").upper()
    bearer = config.get("bearer.auth.credentials.source", "STATIC_TOKEN").upper()
    if source not in ("URL", "USER_INFO"):
        raise invalid_value("basic.auth.credentials.source", source, "URL or USER_INFO")
    if bearer != "STATIC_TOKEN":
        raise invalid_value("bearer.auth.credentials.source", bearer, "STATIC_TOKEN and a token")
    if (source == "USER_INFO") != bool(user_info):
        raise InvalidConverterError(
            "config.conflict",
            f"`basic.auth.credentials.source` is {source}, and `basic.auth.user.info` is "
            f"{'set' if user_info else 'not set'}",
            fix="Set `basic.auth.credentials.source=USER_INFO` and `basic.auth.user.info`, or none "
            "of them.",
            config_path="basic.auth.user.info",
        )
    options = {
        "connect_timeout_s": read_number(config, "http.connect.timeout.ms", 5000, 1) / 1000,
        "read_timeout_s": read_number(config, "http.read.timeout.ms", 15_000, 1) / 1000,
        "wait_s": read_number(config, "retries.wait.ms", 500, 0) / 1000,
        "max_wait_s": read_number(config, "retries.max.wait.ms", 5000, 0) / 1000,
    }
    retries = read_number(config, "max.retries", 2, 0)
    if not texts:
        raise InvalidConverterError(
            "config.missing",
            f"`{URL}` is not set",
            fix="Set it to the registry, such as http://localhost:8081.",
            config_path=URL,
        )
    urls, headers = [], {}
    for text in texts:
        url, user = split_url(text) if _is_url(text) else ("", "")
        if not url:
            raise invalid_value(URL, url or "no URL", "http://host:port or https://host:port")
        urls.append(url)
        if token:
            headers[url] = f"Bearer {token}"
        elif user_info or user:
            headers[url] = basic_login(user_info or user)
    return ClientOptions(tuple(urls), headers, retries=retries, **options)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    is_http = parts.scheme in ("http", "https") and bool(parts.hostname)
    return is_http and len(text.split()) == 1


def _tls(config: Config) -> Callable[[], ssl.SSLContext | None]:
    """Return what makes the TLS of a registry: its files are read at first use."""
    password = config.get(f"{_SSL}keystore.password", "")
    trust = TrustStore(
        config.get(f"{_SSL}truststore.location", ""),
        _store_type(config, f"{_SSL}truststore.type"),
        config.get(f"{_SSL}truststore.password", ""),
        config.get(f"{_SSL}truststore.certificates", ""),
        _SSL,
    )
    own = KeyStore(
        config.get(f"{_SSL}keystore.location", ""),
        _store_type(config, f"{_SSL}keystore.type"),
        password,
        config.get(f"{_SSL}keystore.certificate.chain", ""),
        config.get(f"{_SSL}keystore.key", ""),
        config.get(f"{_SSL}key.password", "") or password,
        _SSL,
    )
    algorithm = config.get(_HOST_CHECK, "https").strip().lower()
    if algorithm not in ("https", ""):
        raise invalid_value(_HOST_CHECK, algorithm, "https, or an empty text")
    if not any(name.startswith(_SSL) for name in config):
        return lambda: None
    return lambda: _make_tls(trust, own, checks_host=bool(algorithm))


def _store_type(config: Config, key: str) -> str:
    kind = config.get(key, "").strip().upper()
    if kind not in ("", *STORE_TYPES):
        raise invalid_value(key, kind, f"one of {', '.join(STORE_TYPES)}, or remove the key")
    return kind


def _make_tls(trust: TrustStore, own: KeyStore, *, checks_host: bool) -> ssl.SSLContext:
    key = f"{_SSL}truststore.{'location' if trust.location else 'certificates'}"
    try:
        context = ssl.create_default_context(cadata=trust.read() or None)
        context.check_hostname = checks_host
        if pair := own.read():
            key = f"{_SSL}keystore.location"
            _load_own(context, *pair)
    except SecurityStoreError as error:
        raise InvalidConverterError(
            "config.invalid_value",
            f"`{error.key}`: {error.why}",
            fix=error.fix,
            config_path=error.key,
        ) from None
    except (ValueError, OSError) as error:
        raise InvalidConverterError(
            "config.invalid_value",
            f"`{key}`: its certificates cannot be used: {error}",
            fix="Check them: PEM begins with -----BEGIN CERTIFICATE-----.",
            config_path=key,
        ) from None
    return context


def _load_own(context: ssl.SSLContext, chain: str, key: str) -> None:
    """Load a certificate and its key. The library wants a file: it is this user's alone, and the
    key in it is encrypted.
    """
    secret = secrets.token_bytes(24)
    private = load_pem_private_key(key.encode(), None)
    locked = private.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(secret)
    )
    with tempfile.NamedTemporaryFile() as made:
        made.write(locked + chain.encode())
        made.flush()
        context.load_cert_chain(made.name, password=secret)


def check_refused(config: Config) -> None:
    """Refuse keys of Confluent's that have no effect here.

    Raises:
        InvalidConverterError: `config.no_effect`.
    """
    for key, fix in REFUSED.items():
        if key in config and config[key].lower() != _NO_EFFECT.get(key):
            raise InvalidConverterError(
                "config.no_effect", f"`{key}` is not supported", fix=fix, config_path=key
            )
