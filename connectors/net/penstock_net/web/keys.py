"""The configuration keys that the source and the sink have in common."""

from __future__ import annotations

from dataclasses import dataclass

from penstock_connector import ConfigError, key
from penstock_connector.addresses import AddressPolicy
from penstock_connector.reach import Reaching
from penstock_net.web.address import Address, address_of, names_host, query_of
from penstock_net.web.client import Client, Limits, tls_context
from penstock_net.web.headers import headers_of
from penstock_net.web.proxying import Proxy
from penstock_net.web.retrying import Retries


@dataclass(frozen=True)
class WebConfig(Reaching):
    """Where, who, how long, how much."""

    url: str = key(doc="Address, without credentials.", required=True, group="Request")
    headers: str = key(
        "", doc="Headers, as `Name: value`, with a vertical bar between two.", group="Request"
    )
    headers_secret: str = key(
        "", doc="The same, for headers that are never shown.", type="password", group="Request"
    )
    query_secret: str = key(
        "",
        doc="Parameters that are never shown, as `name=value&name=value`.",
        type="password",
        group="Request",
    )
    allowed_addresses: tuple[str, ...] = key(
        (),
        doc="Hosts, addresses and networks that may be requested although they are link-local, or "
        "loopback or more internal than `url` where an answer or a row leads there.",
        group="Request",
    )
    proxy_url: str = key(
        "", doc="Address of the proxy for requests, without credentials.", group="Proxy"
    )
    proxy_user: str = key("", doc="Who may use the proxy.", group="Proxy")
    proxy_password: str = key("", doc="The user's password.", type="password", group="Proxy")
    proxy_exclude: tuple[str, ...] = key(
        (),
        doc="Hosts that are requested without it: names, `*.example`, addresses and networks.",
        group="Proxy",
    )
    auth_type: str = key(
        "none",
        doc="How a request is authenticated.",
        choices=("none", "basic", "bearer", "oauth2"),
        group="Login",
    )
    auth_user: str = key("", doc="User, for `basic`.", group="Login")
    auth_password: str = key("", doc="Password, for `basic`.", type="password", group="Login")
    auth_token: str = key("", doc="Token, for `bearer`.", type="password", group="Login")
    oauth2_token_url: str = key(
        "", doc="Where tokens are had, for `oauth2` (client credentials).", group="Login"
    )
    oauth2_client_id: str = key("", doc="Name of the client.", group="Login")
    oauth2_client_secret: str = key("", doc="Its secret.", type="password", group="Login")
    oauth2_scope: str = key("", doc="Scopes to request, with spaces between.", group="Login")
    oauth2_client_in: str = key(
        "header",
        doc="Where the client's name and secret are sent.",
        choices=("header", "body"),
        group="Login",
    )
    tls_ca: str = key(
        "", doc="File of certificates (PEM) to trust instead of the machine's.", group="TLS"
    )
    tls_cert: str = key("", doc="File of a certificate of our own (PEM).", group="TLS")
    tls_key: str = key("", doc="File of its key, when it is not in `tls.cert`.", group="TLS")
    tls_key_password: str = key("", doc="Password of the key.", type="password", group="TLS")
    connect_timeout: float = key(
        10.0, doc="Longest time to connect.", type="duration", group="Limits"
    )
    request_timeout: float = key(
        60.0,
        doc="Longest time of a request, up to the last byte of its answer.",
        type="duration",
        group="Limits",
    )
    response_max_bytes: int = key(
        32 << 20, doc="Most bytes of an answer, unpacked.", type="size", group="Limits"
    )
    retries: int = key(
        5, doc="Attempts after the first before the task fails and is run again.", group="Retries"
    )
    retry_backoff: float = key(
        0.5, doc="Time before the second attempt; doubles.", type="duration", group="Retries"
    )
    retry_backoff_max: float = key(
        30.0, doc="Where doubling ends.", type="duration", group="Retries"
    )
    retry_after_max: float = key(
        300.0,
        doc="Longest wait that a server may request (`Retry-After`) inside of the task.",
        type="duration",
        group="Retries",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        address_of(_sure(self.url))
        headers_of(self.headers, "headers")
        self.secret_headers()
        self.secret_query()
        self._address_policy()
        for name, value in self._positive().items():
            if value <= 0:
                raise invalid(name, "must be more than 0")
        if self.retries < 0:
            raise invalid("retries", "must not be less than 0")
        for name, given in self._login_needs().items():
            if not given:
                raise _missing(name, f"auth.type={self.auth_type}")
        if self.proxy_url:
            address_of(self.proxy_url, "proxy.url")
        elif self.proxy_user or self.proxy_exclude:
            raise _missing("proxy.url", "proxy.user" if self.proxy_user else "proxy.exclude")
        if self.proxy_password and not self.proxy_user:
            raise _missing("proxy.user", "proxy.password")
        if self.oauth2_token_url:
            address_of(self.oauth2_token_url, "oauth2.token.url")

    def require_reach(self) -> None:
        """Refuse servers, and files for TLS, that may not be reached. Where a redirect or a link
        leads, or what a row puts into the host's name, is compared by the client.
        """
        if "${" not in self.url.partition("://")[2].partition("/")[0]:
            self.reach.require_host(address_of(_sure(self.url)).host, "url")
        if self.oauth2_token_url:
            self.reach.require_host(address_of(self.oauth2_token_url).host, "oauth2.token.url")
        if self.proxy_url:
            self.reach.require_host(address_of(self.proxy_url).host, "proxy.url")
        for path, file in (
            ("tls.ca", self.tls_ca), ("tls.cert", self.tls_cert), ("tls.key", self.tls_key),
        ):  # fmt: skip
            self.reach.require_path(file, path)

    def _positive(self) -> dict[str, float]:
        return {
            "connect.timeout": self.connect_timeout,
            "request.timeout": self.request_timeout,
            "response.max.bytes": self.response_max_bytes,
            "retry.backoff": self.retry_backoff,
            "retry.backoff.max": self.retry_backoff_max,
        }

    def _login_needs(self) -> dict[str, str]:
        match self.auth_type:
            case "basic":
                return {"auth.user": self.auth_user}
            case "bearer":
                return {"auth.token": self.auth_token}
            case "oauth2":
                return {
                    "oauth2.token.url": self.oauth2_token_url,
                    "oauth2.client.id": self.oauth2_client_id,
                    "oauth2.client.secret": self.oauth2_client_secret,
                }
        return {}

    def plain_headers(self) -> dict[str, str]:
        """Return the headers that may be seen."""
        return headers_of(self.headers, "headers")

    def secret_headers(self) -> dict[str, str]:
        """Return the headers that are never shown."""
        return headers_of(self.headers_secret, "headers.secret")

    def secret_query(self) -> dict[str, str]:
        """Return the parameters that nobody may see."""
        return query_of(self.query_secret, "query.secret")

    def home(self) -> Address | None:
        """Return the server that `url` names; None when rows name it."""
        return address_of(self.url) if names_host(self.url) else None

    def client(self, home: Address | None) -> Client:
        """Return who asks servers, of which `home` is the one that the configuration means."""
        limits = Limits(self.connect_timeout, self.request_timeout, self.response_max_bytes)
        tls = tls_context(self.tls_ca, self.tls_cert, self.tls_key, self.tls_key_password)
        return Client(limits, tls, self._address_policy(), home, self.reach, self._proxy())

    def _address_policy(self) -> AddressPolicy:
        return AddressPolicy(self.allowed_addresses, code="http.address_refused")

    def _proxy(self) -> Proxy | None:
        if not self.proxy_url:
            return None
        address = address_of(self.proxy_url, "proxy.url")
        tls = tls_context(self.tls_ca, "", "", "")  # our own certificate is for servers
        return Proxy(address, tls, self.proxy_user, self.proxy_password, self.proxy_exclude)

    def retry_rules(self) -> Retries:
        """Return what is tried again, and when."""
        return Retries(
            self.retries, self.retry_backoff, self.retry_backoff_max, self.retry_after_max
        )

    def secrets(self) -> tuple[str, ...]:
        """Return what must be shown nowhere."""
        held = (
            self.auth_password, self.auth_token, self.oauth2_client_secret, self.proxy_password,
        )  # fmt: skip
        more = (*self.secret_headers().values(), *self.secret_query().values())
        return tuple(secret for secret in (*held, *more) if secret)


def _sure(url: str) -> str:
    """Return an address without its signs for what is filled in."""
    return url.replace("${", "").replace("}", "")


def _missing(name: str, by: str) -> ConfigError:
    return ConfigError(
        "config.missing", f"`{by}` needs `{name}`", fix=f"Set `{name}`.", config_path=name
    )


def invalid(path: str, why: str) -> ConfigError:
    """Return the error for a value that cannot mean anything."""
    return ConfigError(
        "config.invalid_value", f"`{path}` {why}", fix=f"Correct `{path}`.", config_path=path
    )
