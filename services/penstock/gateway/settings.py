"""The gateway's own keys. Imports nothing of it: every service reads the names of all keys."""

from __future__ import annotations

from typing import Final

from penstock.gateway.server.listeners import USUAL
from penstock.model.config_def import ConfigKey

KEYS: Final = (
    ConfigKey("listeners", "list", USUAL, doc="http://HOST:PORT, …: where the REST API is."),
    ConfigKey("admin.listeners", "list", doc="Where /admin is; else at `listeners`; empty: none."),
    ConfigKey("listener.tls.certificate", doc="PEM file that https listeners show."),
    ConfigKey("listener.tls.key", doc="PEM file with its key."),
    ConfigKey("listener.tls.clients", doc="PEM file that certificates of clients are checked by."),
    ConfigKey("auth.users", doc="YAML file of users, their passwords' hashes and their rights."),
    ConfigKey("auth.oidc.issuer", doc="URL of an OpenID provider whose tokens are taken."),
    ConfigKey("auth.oidc.audience", default="penstock", doc="Whom its tokens must be for."),
    ConfigKey("auth.oidc.claim", default="penstock", doc="Claim with a person's rights."),
    ConfigKey("auth.oidc.name", default="sub", doc="Claim with a person's name."),
    ConfigKey("rate.requests", "double", 0.0, doc="Requests a second of each person; 0: any."),
    ConfigKey("rate.mistakes", "double", 1.0, doc="Wrong passwords a second of an address."),
    ConfigKey("topic.tracking.enable", "boolean", True, doc="Tell which topics have had rows."),
    ConfigKey("topic.tracking.allow.reset", "boolean", True, doc="Let people have them forgotten."),
    ConfigKey("auth.open", "boolean", False, doc="Let everybody do everything, from anywhere."),
)
