"""The keys of Apicurio's own Avro converter (2.x and 3.x), as those of Confluent's.

    read_apicurio({"apicurio.registry.url": "http://r:8080/apis/registry/v3", …})

The same registry answers at `…/apis/ccompat/v7` in Confluent's protocol. A message has the same
bytes where its id is that of the content: in four bytes as of Confluent's, or in eight. Other ids,
and ids in headers, are refused: a message would be read by another schema than its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock_converters import InvalidConverterError
from penstock_converters.config_values import (
    Config,
    ConverterKey,
    invalid_value,
    read_flag,
    read_number,
)

_APICURIO: Final = "apicurio."
URL: Final = "apicurio.registry.url"
_CONFLUENT_URL: Final = "schema.registry.url"
_PATH: Final = re.compile(r"(?:/apis/registry/v([23]))?/*")
_CCOMPAT: Final = "/apis/ccompat/v7"

_AUTO: Final = "apicurio.registry.auto-register"
_IF_EXISTS: Final = f"{_AUTO}.if-exists"
_LATEST: Final = "apicurio.registry.find-latest"
_GROUP: Final = "apicurio.registry.artifact.group-id"
_HEADERS: Final = "apicurio.registry.headers.enabled"
_AS_CONFLUENT: Final = "apicurio.registry.as-confluent"
_HANDLER: Final = "apicurio.registry.id-handler"
_USE_ID: Final = "apicurio.registry.use-id"
_STRATEGY: Final = "apicurio.registry.artifact-resolver-strategy"
_CHECK_MS: Final = "apicurio.registry.check-period-ms"
_CACHE_LATEST: Final = "apicurio.registry.cache-latest"
_RETRIES: Final = "apicurio.registry.retry-count"
_RETRY_MS: Final = "apicurio.registry.retry-backoff-ms"
_ENCODING: Final = "apicurio.registry.avro.encoding"
_TRUST_ALL: Final = "apicurio.registry.tls.trust-all"
_VERIFY: Final = "apicurio.registry.tls.verify-host"

_HANDLERS: Final[Mapping[str, int]] = {
    "Default4ByteIdHandler": 4,
    "Legacy4ByteIdHandler": 4,
    "Legacy8ByteIdHandler": 8,
    "DefaultIdHandler": 8,
}
"""Classes that write ids, and how many bytes an id has."""

_STRATEGIES: Final = {
    "TopicIdStrategy": "TopicNameStrategy",
    "QualifiedRecordIdStrategy": "RecordNameStrategy",
}

_FIND: Final = ("FIND_OR_CREATE_VERSION", "RETURN_OR_UPDATE")
"""What registering does with a schema that is there: as Confluent's registry."""

_LOGIN: Final = (
    ("auth.username", "", "Name of the user."),
    ("auth.password", "", "The user's password."),
    (
        "auth.service.token.endpoint",
        "bearer.auth.issuer.endpoint.url",
        "URL of an issuer of tokens.",
    ),
    ("auth.client.id", "bearer.auth.client.id", "Id of the client there."),
    ("auth.client.secret", "bearer.auth.client.secret", "Its secret."),
    ("auth.client.scope", "bearer.auth.scope", "Scope of its tokens."),
)
"""Keys of 2.x behind `apicurio.`, of 3.x behind `apicurio.registry.`."""

_STORES: Final[dict[str, str]] = {
    f"apicurio.registry.{theirs}{name}": f"schema.registry.ssl.{ours}{name}"
    for theirs, ours in (
        ("tls.truststore.", "truststore."),
        ("request.ssl.truststore.", "truststore."),
        ("request.ssl.keystore.", "keystore."),
    )
    for name in ("location", "password", "type")
} | {"apicurio.registry.request.ssl.key.password": "schema.registry.ssl.key.password"}
STORE_FILES: Final = tuple(one for one in _STORES if one.endswith(".location"))
"""Keys that name files."""

_PROXY: Final = {
    "apicurio.registry.proxy.host": "proxy.host",
    "apicurio.registry.proxy.port": "proxy.port",
}

APICURIO_KEYS: Final = (
    ConverterKey(URL, doc="URL of the registry, instead of `schema.registry.url`: "
              "`…/apis/registry/v2` for the defaults of 2.x, `…/v3` for those of 3.x."),
    ConverterKey(_AUTO, "boolean", default=False, doc="As `auto.register.schemas`."),
    ConverterKey(_IF_EXISTS, doc="Only the defaults, `RETURN_OR_UPDATE` and "
              "`FIND_OR_CREATE_VERSION`."),
    ConverterKey(_LATEST, "boolean", default=False, doc="As `use.latest.version`."),
    ConverterKey(_GROUP, default="default", doc="Group of the artifacts."),
    ConverterKey(_STRATEGY, default="TopicIdStrategy", doc="`TopicIdStrategy`, or "
              "`QualifiedRecordIdStrategy` for the names of records."),
    ConverterKey(_HEADERS, "boolean", doc="Only `false`, the default of 3.x; that of 2.x is "
              "`true`."),
    ConverterKey(_USE_ID, doc="Only `contentId`, the default of 3.x; that of 2.x is `globalId`."),
    ConverterKey(_HANDLER, doc="How ids are written: `Default4ByteIdHandler` (the default of 3.x) "
              "and `Legacy4ByteIdHandler` in four bytes, `Legacy8ByteIdHandler` and "
              "`DefaultIdHandler` (that of 2.x) in eight."),
    ConverterKey(_AS_CONFLUENT, "boolean", default=False, doc="Of 2.x: as "
              "`Legacy4ByteIdHandler`."),
    ConverterKey(_ENCODING, default="BINARY", doc="Only `BINARY`."),
    ConverterKey(_CHECK_MS, "int", 30_000, doc="Time for which the newest schema is remembered."),
    ConverterKey(_CACHE_LATEST, "boolean", default=True, doc="Whether it is remembered."),
    ConverterKey(_RETRIES, "int", 3, doc="As `max.retries`."),
    ConverterKey(_RETRY_MS, "int", 300, doc="As `retries.wait.ms`."),
    *(ConverterKey(f"{start}{name}", "password" if name.endswith(("password", "secret"))
                   else "string", doc=doc)
      for name, _, doc in _LOGIN for start in (_APICURIO, f"{_APICURIO}registry.")),
    *(ConverterKey(theirs, "password" if theirs.endswith("password") else "string",
                   doc=f"As `{ours}`.") for theirs, ours in (_STORES | _PROXY).items()),
    ConverterKey(_TRUST_ALL, "boolean", default=False, doc="Only `false`."),
    ConverterKey(_VERIFY, "boolean", default=True, doc="Whether the certificate must name the "
              "registry's host."),
)  # fmt: skip
"""Keys of the Avro converter of Apicurio's."""

_NO_OTHER: Final = "Schemas are found by the topic, or by the name of the record: remove it."
REFUSED: Final[Mapping[str, str]] = {
    "apicurio.registry.artifact.artifact-id": _NO_OTHER,
    "apicurio.registry.artifact.version": _NO_OTHER,
    "apicurio.registry.fallback.artifact-id": _NO_OTHER,
    "apicurio.registry.use-schema-from-headers": "Schemas are made of rows: remove it.",
    "apicurio.registry.headers.handler": "Ids are written into messages only: remove it.",
    "apicurio.registry.schema-resolver": "It names a class of Java: remove it.",
    "apicurio.registry.proxy.username": "A proxy is not logged in at: use one without users.",
    "apicurio.registry.tls.certificates": "Set `schema.registry.ssl.truststore.certificates` to "
    "the certificates, or `apicurio.registry.tls.truststore.location` to a file with them.",
}
"""Keys that would name another schema, or another way to the registry, and what to do instead."""


@dataclass(frozen=True, slots=True)
class ApicurioOptions:
    """What keys of Apicurio's mean.

    Attributes:
        keys: Confluent's keys with the same meaning.
        group: Group of the artifacts; empty: the default one.
        id_bytes: How many bytes an id has.
    """

    keys: Config = field(repr=False)
    group: str = ""
    id_bytes: int = 4


def has_apicurio_keys(config: Config) -> bool:
    """Return whether a converter has keys of Apicurio's."""
    return URL in config


def read_apicurio(config: Config) -> ApicurioOptions:
    """Return the keys of a converter as those of Confluent's.

    Raises:
        InvalidConverterError: `config.invalid_value`, `config.conflict`, `config.no_effect`.
    """
    if _CONFLUENT_URL in config:
        raise InvalidConverterError(
            "config.conflict",
            f"`{URL}` and `{_CONFLUENT_URL}` name a registry",
            fix="Remove one of them.",
            config_path=URL,
        )
    _refuse(config)
    url, version = _read_url(config)
    id_bytes = _read_id_form(config, version)
    own = {key: text for key, text in config.items() if not key.startswith(_APICURIO)}
    keys = {
        _CONFLUENT_URL: url,
        "auto.register.schemas": str(read_flag(config, _AUTO, default=False)).lower(),
        "use.latest.version": str(read_flag(config, _LATEST, default=False)).lower(),
        "value.subject.name.strategy": _strategy(config),
        "key.subject.name.strategy": _strategy(config),
        "max.retries": str(read_number(config, _RETRIES, 3, 0)),
        "retries.wait.ms": str(read_number(config, _RETRY_MS, 300, 0)),
        "latest.cache.ttl.sec": _latest_ttl(config),
        **{
            ours: text
            for theirs, ours in (_STORES | _PROXY).items()
            if (text := config.get(theirs, ""))
        },
        **_login(config),
    }
    if not read_flag(config, _VERIFY, default=True):
        keys["schema.registry.ssl.endpoint.identification.algorithm"] = ""
    group = config.get(_GROUP, "").strip()
    return ApicurioOptions({**keys, **own}, "" if group == "default" else group, id_bytes)


def unused_apicurio_keys(config: Config) -> dict[str, str]:
    """Return the keys that do nothing beside the others, and why."""
    if config.get(_AUTO, "").strip().lower() != "true":
        return {}
    if config.get(_LATEST, "").strip().lower() != "true":
        return {}
    return {_LATEST: f"the schemas of rows are registered (`{_AUTO}`)"}


def _refuse(config: Config) -> None:
    for key, fix in REFUSED.items():
        if config.get(key, "").strip().lower() not in ("", "false"):
            raise InvalidConverterError(
                "config.no_effect",
                f"`{key}` is not supported",
                fix=fix,
                config_path=key,
            )
    for key, only in ((_ENCODING, "BINARY"), (_TRUST_ALL, "false")):
        if config.get(key, only).strip().lower() != only.lower():
            raise invalid_value(key, config[key], only)
    if_exists = config.get(_IF_EXISTS, _FIND[0]).strip().upper()
    if if_exists not in _FIND:
        raise invalid_value(_IF_EXISTS, if_exists, " or ".join(_FIND))


def _read_url(config: Config) -> tuple[str, str]:
    """Return the URL of Confluent's protocol, and the version of Apicurio's that is named: 2, 3, or
    an empty text.
    """
    text = config[URL].strip()
    scheme, separator, rest = text.partition("://")
    host, slash, path = rest.partition("/")
    found = _PATH.fullmatch(slash + path)
    if not separator or found is None:
        raise invalid_value(
            URL, f"{scheme}://{host.rpartition('@')[2]}{slash}{path}",
            "http://host:port/apis/registry/v2 or …/v3",
        )  # fmt: skip
    return f"{scheme}://{host}{_CCOMPAT}", found[1] or ""


def _read_id_form(config: Config, version: str) -> int:
    """Return the bytes of an id. What is not said is the default of the version in the URL."""
    is_2 = version != "3"
    if read_flag(config, _HEADERS, default=is_2):
        raise _other_form(config, _HEADERS, "true", "false", "ids are in headers of messages")
    use_id = config.get(_USE_ID, "globalId" if is_2 else "contentId").strip()
    if use_id != "contentId":
        why = "ids are those of versions of artifacts"
        raise _other_form(config, _USE_ID, use_id, "contentId", why)
    handler = config.get(_HANDLER, "DefaultIdHandler" if is_2 else "Default4ByteIdHandler")
    name = handler.strip().rpartition(".")[2]
    if read_flag(config, _AS_CONFLUENT, default=False):
        name = "Legacy4ByteIdHandler"
    if name not in _HANDLERS:
        raise invalid_value(_HANDLER, handler, f"one of {', '.join(_HANDLERS)}")
    return _HANDLERS[name]


def _other_form(config: Config, key: str, value: str, only: str, why: str) -> InvalidConverterError:
    default = "" if key in config else " by default in Apicurio 2.x"
    return InvalidConverterError(
        "config.no_effect",
        f"`{key}` is {value[:100]}{default}: {why}, and such messages are not read here",
        fix=f"Set `{key}={only}`, here and in the systems that write and read the topic.",
        config_path=key,
    )


def _strategy(config: Config) -> str:
    text = config.get(_STRATEGY, "TopicIdStrategy").strip()
    name = text.rpartition(".")[2]
    if name not in _STRATEGIES:
        raise invalid_value(_STRATEGY, text, " or ".join(_STRATEGIES))
    return _STRATEGIES[name]


def _latest_ttl(config: Config) -> str:
    period = read_number(config, _CHECK_MS, 30_000, 0)
    return str(-(-period // 1000)) if read_flag(config, _CACHE_LATEST, default=True) else "0"


def _login(config: Config) -> dict[str, str]:
    found = dict[str, str]()
    values = dict[str, str]()
    for name, ours, _ in _LOGIN:
        for start in (_APICURIO, f"{_APICURIO}registry."):
            if text := config.get(f"{start}{name}", ""):
                values[name] = text
                if ours:
                    found[ours] = text
    if values.get("auth.service.token.endpoint"):
        return {"bearer.auth.credentials.source": "OAUTHBEARER", **found}
    if user := values.get("auth.username"):
        info = f"{user}:{values.get('auth.password', '')}"
        return {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": info}
    return {}
