"""The keys of converters that ask a schema registry, as Confluent's converters name them."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from penstock_converters import InvalidConverterError
from penstock_converters.config_values import (
    Config,
    ConverterKey,
    invalid_value,
    read_flag,
    read_number,
)
from penstock_converters.schema_registry.apicurio_keys import STORE_FILES as APICURIO_FILES
from penstock_converters.schema_registry.apicurio_keys import (
    ApicurioOptions,
    has_apicurio_keys,
    read_apicurio,
    unused_apicurio_keys,
)
from penstock_converters.schema_registry.client import ClientOptions, split_url
from penstock_converters.schema_registry.http import Timeouts
from penstock_converters.schema_registry.login import (
    ISSUER,
    LOGIN_KEYS,
    is_url,
    proxy_host,
    read_headers,
    read_proxy,
    read_token_options,
    read_user,
    unused_login_keys,
)
from penstock_converters.schema_registry.tls import STORE_FILES, TLS_KEYS, read_tls

URL: Final = "schema.registry.url"
_STRATEGIES: Final = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")

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
    *LOGIN_KEYS,
    *TLS_KEYS,
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

_PREFIX: Final = "schema.registry."
_CLIENT_KEYS: Final = ("basic.auth.", "bearer.auth.", "proxy.", "http.", "max.retries", "retries.")
LONG_NAMES: Final = frozenset(
    f"{_PREFIX}{one.name}" for one in REGISTRY_KEYS if one.name.startswith(_CLIENT_KEYS)
)
"""Other names of keys of the registry's client, which Confluent's converters take, too."""

REFUSED: Final[Mapping[str, str]] = {
    "use.schema.guid": "Use `use.schema.id`.",
    "use.latest.with.metadata": "Use `use.latest.version` or `use.schema.id`.",
    "context.name.strategy": "Name the context in the subject or the URL.",
    "rule.executors": "Rules of the registry are not run here: use transforms.",
    "rule.actions": "Rules of the registry are not run here: use transforms.",
    "key.schema.id.serializer": "Ids are written into messages only.",
    "value.schema.id.serializer": "Ids are written into messages only.",
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
        id_bytes: How many bytes of a message are the id of its schema.
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
    id_bytes: int = 4


def read_registry_options(config: Config, *, is_key: bool) -> RegistryOptions:
    """Return the options of a registry.

    Raises:
        InvalidConverterError: `config.missing`, `config.invalid_value`, `config.conflict`, …
    """
    apicurio = _as_confluents(config)
    config = apicurio.keys
    strategies = {side: _strategy(config, f"{side}.subject.name.strategy") for side in _SIDES}
    return RegistryOptions(
        client=_client_options(config, apicurio.group),
        tls=read_tls(config),
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
        id_bytes=apicurio.id_bytes,
    )


_SIDES: Final = ("key", "value")


def _as_confluents(config: Config) -> ApicurioOptions:
    """Return the keys of a converter by Confluent's names."""
    if has_apicurio_keys(config):
        return read_apicurio(config)
    return ApicurioOptions(_with_short_names(config))


def _with_short_names(config: Config) -> Config:
    """Return the keys of a converter without the prefix `schema.registry.` that those of the
    registry's client may have.
    """
    if not LONG_NAMES & config.keys():
        return config
    return {key.removeprefix(_PREFIX) if key in LONG_NAMES else key: config[key] for key in config}


def unused_registry_keys(config: Config) -> dict[str, str]:
    """Return the keys of a converter that do nothing, and why."""
    if has_apicurio_keys(config):
        return unused_apicurio_keys(config)
    found = unused_login_keys(config)
    if config.get("auto.register.schemas", "true").strip().lower() == "true":
        for key in ("use.latest.version", "use.schema.id"):
            if config.get(key, "false").strip().lower() not in ("false", "-1"):
                found[key] = "the schemas of rows are registered (`auto.register.schemas`)"
    return found


def registry_hosts(config: Config) -> tuple[str, ...]:
    """Return the hosts that a converter reaches: its registry, a proxy, an issuer of tokens."""
    try:
        config = _as_confluents(config).keys
    except InvalidConverterError:  # it will be refused for that
        return ()
    urls = [one.strip() for one in (*config.get(URL, "").split(","), config.get(ISSUER, ""))]
    hosts = [urlsplit(one).hostname or "" for one in urls if one]
    return (*hosts, proxy) if (proxy := proxy_host(config)) else tuple(hosts)


def registry_files(config: Config) -> tuple[str, ...]:
    """Return the keys of the files that a converter reads."""
    return tuple(name for name in (*STORE_FILES, *APICURIO_FILES) if config.get(name))


def _strategy(config: Config, key: str) -> str:
    text = config.get(key, _STRATEGIES[0])
    name = text.removeprefix("io.confluent.kafka.serializers.subject.")
    if name == "AssociatedNameStrategy":  # the default of newer converters, as the topic's name
        name = _STRATEGIES[0]
    if name not in _STRATEGIES:
        raise invalid_value(key, text, ", ".join(_STRATEGIES))
    return name


def _client_options(config: Config, group: str) -> ClientOptions:
    texts = [one.strip().rstrip("/") for one in config.get(URL, "").split(",") if one.strip()]
    if not texts:
        raise InvalidConverterError(
            "config.missing",
            f"`{URL}` is not set",
            fix="Set it to the registry, such as http://localhost:8081.",
            config_path=URL,
        )
    given = read_user(config)
    urls, headers = [], {}
    for text in texts:
        url, user = split_url(text) if is_url(text) else ("", "")
        if not url:
            raise invalid_value(URL, url or "no URL", "http://host:port or https://host:port")
        urls.append(url)
        headers[url] = read_headers(config, given or user)
        if group:
            headers[url]["X-Registry-GroupId"] = group
    return ClientOptions(
        tuple(urls),
        headers,
        read_token_options(config),
        read_proxy(config),
        Timeouts(
            read_number(config, "http.connect.timeout.ms", 5000, 1) / 1000,
            read_number(config, "http.read.timeout.ms", 15_000, 1) / 1000,
        ),
        retries=read_number(config, "max.retries", 2, 0),
        wait_s=read_number(config, "retries.wait.ms", 500, 0) / 1000,
        max_wait_s=read_number(config, "retries.max.wait.ms", 5000, 0) / 1000,
    )


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
