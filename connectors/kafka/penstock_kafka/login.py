"""Where the brokers are, and who we are there: the keys of Kafka's clients in Java, as settings of
librdkafka.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from penstock_connector import ConfigError, key
from penstock_connector.reach import Reach, Reaching
from penstock_kafka import oauth
from penstock_kafka.client_settings import LOGIN_PREFIXES, LOGIN_UNUSED, unknown_key
from penstock_values.jaas import JaasLogin, parse_jaas
from penstock_values.security_stores import (
    STORE_TYPES,
    KeyStore,
    SecurityStoreError,
    TrustStore,
)

_SERVERS: Final = "bootstrap.servers"
_OAUTH: Final = "OAUTHBEARER"
_PROTOCOLS: Final = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", _OAUTH)
_STORES: Final = ("", *STORE_TYPES)
_GROUP: Final = "Connection"


@dataclass(frozen=True)
class LoginConfig(Reaching):
    """The keys of a connection, with the names that Kafka's clients in Java give them."""

    bootstrap_servers: tuple[str, ...] = key(
        doc="Brokers to begin with, as `host:port`.", required=True, group=_GROUP
    )
    security_protocol: str = key(
        "PLAINTEXT",
        doc="How to talk to the brokers.",
        choices=_PROTOCOLS,
        group=_GROUP,
    )
    sasl_mechanism: str = key("", doc="How to log in.", choices=("", *_MECHANISMS), group=_GROUP)
    sasl_jaas_config: str = key(
        "",
        doc="Who logs in, as Kafka's clients in Java take it: `…PlainLoginModule required "
        'username="u" password="p";`.',
        type="password",
        group=_GROUP,
    )
    sasl_username: str = key(
        "", doc="Name of the user, instead of `sasl.jaas.config`.", group=_GROUP
    )
    sasl_password: str = key("", doc="The user's password.", type="password", group=_GROUP)
    sasl_oauthbearer_token_endpoint_url: str = key(
        "",
        doc="Where a client gets its tokens (OAUTHBEARER): a server, or a file (`file:///…`).",
        group=_GROUP,
    )
    sasl_oauthbearer_client_credentials_client_id: str = key(
        "", doc="Name of the client there, instead of `sasl.jaas.config`.", group=_GROUP
    )
    sasl_oauthbearer_client_credentials_client_secret: str = key(
        "", doc="The client's secret.", type="password", group=_GROUP
    )
    sasl_oauthbearer_scope: str = key("", doc="Scope of the tokens.", group=_GROUP)
    sasl_oauthbearer_jwt_retriever_class: str = key(
        "",
        doc="Where tokens come from, as Kafka names it: `ClientCredentialsJwtRetriever`, "
        "`JwtBearerJwtRetriever`, `FileJwtRetriever`, or `DefaultJwtRetriever` (the default): the "
        "third where the URL is a file's, else the first.",
        group=_GROUP,
    )
    sasl_oauthbearer_sub_claim_name: str = key(
        "", doc="Claim of the tokens that names the user; empty: `sub`.", group=_GROUP
    )
    sasl_oauthbearer_header_urlencode: str = key(
        "",
        doc="Whether id and secret are URL-encoded where they are sent.",
        choices=("", "true", "false"),
        group=_GROUP,
    )
    sasl_oauthbearer_assertion: Mapping[str, str] = key(
        doc="The assertion of `JwtBearerJwtRetriever`: a `file`, or what one is signed with and "
        "says: `algorithm` (RS256, ES256), `private.key.file`, `private.key.passphrase`, "
        "`template.file`, `claim.aud`, `claim.iss`, `claim.sub`, `claim.exp.seconds`, "
        "`claim.nbf.seconds`, `claim.jti.include`.",
        group=_GROUP,
    )
    ssl_truststore_location: str = key(
        "",
        doc="File with the certificates that sign the brokers' (PEM, PKCS12 or JKS). Empty: "
        "those of the system.",
        group=_GROUP,
    )
    ssl_truststore_password: str = key("", doc="Its password.", type="password", group=_GROUP)
    ssl_truststore_type: str = key(
        "", doc="Form of the file; empty: it is found out.", choices=_STORES, group=_GROUP
    )
    ssl_truststore_certificates: str = key(
        "", doc="The certificates themselves (PEM), instead of a file.", group=_GROUP
    )
    ssl_keystore_location: str = key(
        "",
        doc="File with the certificate of the client and its key (PEM, PKCS12 or JKS).",
        group=_GROUP,
    )
    ssl_keystore_password: str = key("", doc="Its password.", type="password", group=_GROUP)
    ssl_keystore_type: str = key(
        "", doc="Form of the file; empty: it is found out.", choices=_STORES, group=_GROUP
    )
    ssl_keystore_certificate_chain: str = key(
        "", doc="The certificate itself (PEM), instead of a file.", group=_GROUP
    )
    ssl_keystore_key: str = key(
        "", doc="The key of that certificate (PEM).", type="password", group=_GROUP
    )
    ssl_key_password: str = key(
        "", doc="Password of the key, where it has one.", type="password", group=_GROUP
    )
    ssl_endpoint_identification_algorithm: str = key(
        "https",
        doc="`https`: the certificate must name the broker's host; empty: it need not.",
        choices=("https", ""),
        group=_GROUP,
    )
    ssl_other: Mapping[str, str] = key(
        doc="Other keys of Kafka's clients: a warning gives the reason why they do nothing here.",
        name="ssl",
        group=_GROUP,
    )
    sasl_other: Mapping[str, str] = key(
        doc="As `ssl.*`.",
        name="sasl",
        group=_GROUP,
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        for server in self.bootstrap_servers:
            host, colon, port = server.rpartition(":")
            if not (colon and host and port.isdigit() and 0 < int(port) < 65536):
                raise ConfigError(
                    "kafka.bootstrap_servers",
                    f"`bootstrap.servers` has {server!r}, which is not host:port",
                    fix="Write for example broker1:9092,broker2:9092.",
                    config_path="bootstrap.servers",
                )
        self._refuse_login_without_effect()
        if self.security_protocol.startswith("SASL_"):
            self._user()

    def _others(self) -> Iterator[str]:
        yield from (f"ssl.{name}" for name in self.ssl_other)
        yield from (f"sasl.{name}" for name in self.sasl_other)

    def _refuse_login_without_effect(self) -> None:
        protocol = self.security_protocol
        logs_in, has_tls = protocol.startswith("SASL_"), protocol.endswith("SSL")
        for name, used in (
            ("sasl.mechanism", logs_in),
            ("sasl.jaas.config", logs_in),
            ("sasl.username", logs_in),
            ("sasl.password", logs_in),
            ("ssl.truststore.location", has_tls),
            ("ssl.truststore.certificates", has_tls),
            ("ssl.keystore.location", has_tls),
            ("ssl.keystore.certificate.chain", has_tls),
        ):
            if getattr(self, name.replace(".", "_")) and not used:
                raise ConfigError(
                    "config.conflict",
                    f"`{name}` has no effect with `security.protocol={protocol}`",
                    fix="Set `security.protocol`, for instance to SASL_SSL, or remove the key.",
                    config_path=name,
                )

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why. Kafka's clients ignore keys that
        they do not know, too.
        """
        known = {field.name.replace("_", ".") for field in dataclasses.fields(self)}
        known |= {f"{oauth.ASSERTION}{name}" for name in oauth.ASSERTION_KEYS}
        found = dict[str, str]()
        if self.security_protocol.startswith("SASL_") and self._mechanism() == _OAUTH:
            found = self._oauth().unused_keys()
        for name in self._others():
            if name in LOGIN_UNUSED:
                found[name] = LOGIN_UNUSED[name]
            elif name not in known:
                found[name] = unknown_key(name, (*known, *LOGIN_UNUSED))
        return found

    def unused_client_keys(self, kind: str, keys: Mapping[str, str]) -> dict[str, str]:
        """Return those of the keys of a client's own connection (`producer.sasl.…`)."""
        unused = self.login(kind, keys).unused_keys()
        return {f"{kind}.{name}": why for name, why in unused.items() if name in keys}

    def require_reach(self) -> None:
        """Refuse a broker, or a file, that the node does not let it reach."""
        for server in self.bootstrap_servers:
            self.reach.require_host(server.rpartition(":")[0], "bootstrap.servers")
        if file := self._oauth().token_file():
            self.reach.require_path(file, oauth.URL)
        elif url := self.sasl_oauthbearer_token_endpoint_url:
            self.reach.require_host(urlsplit(url).hostname or "", oauth.URL)
        for name in oauth.ASSERTION_FILES:
            if location := self.sasl_oauthbearer_assertion.get(name):
                self.reach.require_path(location, f"{oauth.ASSERTION}{name}")
        for name in ("ssl.truststore.location", "ssl.keystore.location"):
            if location := getattr(self, name.replace(".", "_")):
                self.reach.require_path(location, name)

    @classmethod
    def of(cls, prefix: str, keys: Mapping[str, str], reach: Reach) -> LoginConfig:
        """Return the connection that keys describe which had a prefix: `source.cluster.sasl.…`.

        Raises:
            ConfigError: as for the keys themselves, with the prefix.
        """
        for name in keys:
            if not name.startswith(LOGIN_PREFIXES):
                raise ConfigError(
                    "config.unknown_key",
                    f"`{prefix}.{name}` is not a key of a connection",
                    fix="Settings of clients begin with the client: `consumer.…`, `admin.…`.",
                    config_path=f"{prefix}.{name}",
                )
        servers = (one.strip() for one in keys.get(_SERVERS, "").split(","))
        try:
            connection = cls(
                bootstrap_servers=tuple(servers),
                ssl_other={},
                sasl_other={},
                sasl_oauthbearer_assertion={},
            )
            connection.bounded_by(reach)
        except ConfigError as error:
            path = f"{prefix}.{error.config_path}"
            raise ConfigError(error.code, error.message, fix=error.fix, config_path=path) from None
        return connection.login(prefix, keys)

    def login(self, kind: str, keys: Mapping[str, str]) -> LoginConfig:
        """Return the connection of a client, some of whose keys are others: `producer.sasl.…` where
        `kind` is producer.

        Raises:
            ConfigError: as for the keys themselves, with the prefix.
        """
        own = {name: text for name, text in keys.items() if name.startswith(LOGIN_PREFIXES)}
        fields = [field for field in dataclasses.fields(LoginConfig) if field.init]
        values = {field.name: getattr(self, field.name) for field in fields}
        names = {name.replace(".", "_"): text for name, text in own.items()}
        values |= {name: text for name, text in names.items() if name in values}
        values["bootstrap_servers"] = tuple(
            one.strip() for one in own.get(_SERVERS, ",".join(self.bootstrap_servers)).split(",")
        )
        for name, start in (
            ("ssl_other", "ssl."),
            ("sasl_other", "sasl."),
            ("sasl_oauthbearer_assertion", oauth.ASSERTION),
        ):
            more = {name.removeprefix(start): own[name] for name in own if name.startswith(start)}
            values[name] = {**values[name], **more}
        try:
            _require_choices(own)
            login = LoginConfig(**values)
            login.bounded_by(self.reach)
        except ConfigError as error:
            path = f"{kind}.{error.config_path}" if error.config_path in own else error.config_path
            raise ConfigError(error.code, error.message, fix=error.fix, config_path=path) from None
        return login

    def settings(self) -> dict[str, Any]:
        """Return the settings of a client of Kafka by which it finds the brokers, and logs in."""
        found: dict[str, Any] = {
            "bootstrap.servers": ",".join(self.bootstrap_servers),
            "security.protocol": self.security_protocol,
        }
        if self.security_protocol.startswith("SASL_"):
            found |= self._user()
            if read := found.get("oauth_cb"):
                read("")  # a file that has no token is an error of the configuration
        if self.security_protocol.endswith("SSL"):
            try:
                found |= self._tls()
            except SecurityStoreError as error:
                message = f"`{error.key}`: {error.why}"
                raise ConfigError(
                    "kafka.store", message, fix=error.fix, config_path=error.key
                ) from None
        return found

    def _mechanism(self) -> str:
        module = self._jaas().module
        return self.sasl_mechanism or _MODULES.get(module, "PLAIN")

    def _jaas(self) -> JaasLogin:
        """Return the login of `sasl.jaas.config`.

        Raises:
            ConfigError: `kafka.jaas`.
        """
        if not self.sasl_jaas_config:
            return JaasLogin("", {})
        try:
            found = parse_jaas(self.sasl_jaas_config)
        except ValueError as error:
            raise _invalid_jaas(str(error)) from None
        if found.module not in _MODULES:
            raise _invalid_jaas(f"names the login module {found.module[:100]}")
        return found

    def _user(self) -> dict[str, Any]:
        mechanism = self._mechanism()
        if not mechanism:
            raise _missing(
                "`sasl.jaas.config` names ScramLoginModule, which needs `sasl.mechanism`",
                "sasl.mechanism",
                "Set it to SCRAM-SHA-256 or SCRAM-SHA-512.",
            )
        if mechanism == _OAUTH:
            return self._oauth().settings()
        options = self._jaas().options
        user = self.sasl_username or options.get("username", "")
        if not user:
            raise _missing(
                f"`security.protocol={self.security_protocol}` needs a user",
                "sasl.jaas.config",
                'Set `sasl.username` and `sasl.password`, or `sasl.jaas.config` with username="…" '
                'password="…".',
            )
        password = self.sasl_password or options.get("password", "")
        return {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}

    def _oauth(self) -> oauth.OAuthLogin:
        keys = {
            oauth.URL: self.sasl_oauthbearer_token_endpoint_url,
            oauth.RETRIEVER: self.sasl_oauthbearer_jwt_retriever_class,
            oauth.CLIENT_ID: self.sasl_oauthbearer_client_credentials_client_id,
            oauth.CLIENT_SECRET: self.sasl_oauthbearer_client_credentials_client_secret,
            oauth.SCOPE: self.sasl_oauthbearer_scope,
            oauth.SUBJECT: self.sasl_oauthbearer_sub_claim_name,
            oauth.URL_ENCODES: self.sasl_oauthbearer_header_urlencode,
        }
        own = self.sasl_oauthbearer_assertion
        keys |= {
            f"{oauth.ASSERTION}{name}": own[name] for name in oauth.ASSERTION_KEYS & own.keys()
        }
        set_keys = {name: text for name, text in keys.items() if text}
        return oauth.OAuthLogin(set_keys, self._jaas().options)

    def _tls(self) -> dict[str, str]:
        found = {
            "ssl.endpoint.identification.algorithm": self.ssl_endpoint_identification_algorithm
            or "none"
        }
        trust = TrustStore(
            self.ssl_truststore_location,
            self.ssl_truststore_type,
            self.ssl_truststore_password,
            self.ssl_truststore_certificates,
        )
        if pem := trust.read():
            found["ssl.ca.pem"] = pem
            found["https.ca.pem"] = pem  # of the place where tokens come from
        store = KeyStore(
            self.ssl_keystore_location,
            self.ssl_keystore_type,
            self.ssl_keystore_password,
            self.ssl_keystore_certificate_chain,
            self.ssl_keystore_key,
            self.ssl_key_password,
        )
        if pair := store.read():
            found["ssl.certificate.pem"], found["ssl.key.pem"] = pair
        return found


def _require_choices(own: Mapping[str, str]) -> None:
    for name, choices in (("security.protocol", _PROTOCOLS), ("sasl.mechanism", _MECHANISMS)):
        if name in own and own[name] not in choices:
            raise ConfigError(
                "config.invalid_choice",
                f"`{name}` is {own[name][:100]!r}",
                fix=f"Use one of {', '.join(choices)}.",
                config_path=name,
            )


_MODULES: Final[Mapping[str, str]] = {
    "PlainLoginModule": "PLAIN",
    "ScramLoginModule": "",  # one of two: `sasl.mechanism` says which
    "OAuthBearerLoginModule": _OAUTH,
}


def _invalid_jaas(why: str) -> ConfigError:
    return ConfigError(
        "kafka.jaas",
        f"`sasl.jaas.config` {why}",
        fix="Write org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="…" password="…"; (or ScramLoginModule, OAuthBearerLoginModule).',
        config_path="sasl.jaas.config",
    )


def _missing(message: str, path: str, fix: str) -> ConfigError:
    return ConfigError("config.missing", message, fix=fix, config_path=path)
