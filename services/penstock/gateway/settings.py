"""The keys of the gateway. Imports only `listeners`: every service reads the names of all keys."""

from __future__ import annotations

from typing import Final

from penstock.gateway.listeners import DEFAULT_LISTENERS
from penstock.model.config_def import ConfigKey

CORS_METHODS: Final = ("GET", "POST", "HEAD")
"""Methods that pages of other sites may use by default."""

KEYS: Final = (
    ConfigKey(
        "listeners",
        "list",
        DEFAULT_LISTENERS,
        doc="http://HOST:PORT, …: addresses of the REST API.",
    ),
    ConfigKey(
        "admin.listeners", "list", doc="Addresses of /admin; unset: `listeners`; empty: none."
    ),
    ConfigKey(
        "listeners.rocketmq",
        "list",
        (),
        doc="Addresses of RocketMQ Connect's REST API, such as http://127.0.0.1:8082.",
    ),
    ConfigKey("listener.tls.certificate", doc="PEM file with the certificate of https listeners."),
    ConfigKey("listener.tls.key", doc="PEM file with its key."),
    ConfigKey("listener.tls.clients", doc="PEM file of authorities of client certificates."),
    ConfigKey("auth.users", doc="YAML file of users, their password hashes and roles."),
    ConfigKey("auth.oidc.issuer", doc="URL of an OpenID provider whose tokens are accepted."),
    ConfigKey("auth.oidc.audience", default="penstock", doc="Audience that its tokens must have."),
    ConfigKey("auth.oidc.claim", default="penstock", doc="Claim with the roles of a user."),
    ConfigKey("auth.oidc.name", default="sub", doc="Claim with the name of a user."),
    ConfigKey("rate.requests", "double", 0.0, doc="Requests a second of each user; 0: any."),
    ConfigKey("rate.mistakes", "double", 1.0, doc="Wrong passwords a second from an address."),
    ConfigKey("topic.tracking.enable", "boolean", True, doc="Show the topics of connectors."),
    ConfigKey("topic.tracking.allow.reset", "boolean", True, doc="Let users reset these topics."),
    ConfigKey(
        "delete.keeps.offsets",
        "boolean",
        False,
        doc="Whether DELETE of a connector keeps its offsets for the next one of its name, as in "
        "Kafka Connect, where the request does not say it.",
    ),
    ConfigKey(
        "access.control.allow.origin",
        "list",
        (),
        doc="Origins whose web pages may call the API, such as https://ui.example; * for all.",
    ),
    ConfigKey(
        "access.control.allow.methods",
        "list",
        CORS_METHODS,
        doc="Methods that these pages may use.",
    ),
    ConfigKey(
        "access.hosts",
        "list",
        (),
        doc="Names besides localhost by which programs of this machine may call a gateway without "
        "users.",
    ),
    ConfigKey(
        "access.show.secrets",
        "boolean",
        False,
        doc="Show secrets of connectors as written, instead of ***, to those who may edit them.",
    ),
    ConfigKey("auth.open", "boolean", False, doc="Allow every caller everything, from anywhere."),
)
