"""What a gateway's keys say of who may do what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from penstock.gateway.access.guard import Guard
from penstock.gateway.access.rates import Rate
from penstock.gateway.access.sites import of_this_machine
from penstock.gateway.access.users import FileOfUsers
from penstock.gateway.places import Place
from penstock.model.errors import ConfigError


def guard_of(values: Mapping[str, Any], places: Iterable[Place]) -> Guard:
    """Return who asks of requests who sends them.

    Raises:
        ConfigError: `access.open`: nobody asks, and others than this machine may send requests;
            `access.file`.
    """
    file, issuer = values["auth.users"], values["auth.oidc.issuer"]
    users = FileOfUsers(Path(file)) if file else None
    tokens = None
    if issuer:
        # only who takes tokens loads what checks them
        from penstock.gateway.access.tokens import Provider, Tokens  # noqa: PLC0415

        tokens = Tokens(
            Provider(
                issuer,
                values["auth.oidc.audience"],
                values["auth.oidc.claim"],
                values["auth.oidc.name"],
            )
        )
    reached = [place.address for place in places if not of_this_machine(place.address)]
    if users is None and tokens is None and reached and not values["auth.open"]:
        raise ConfigError(
            "access.open",
            f"whoever reaches {reached[0]} may do everything: nothing says who may what",
            fix="Set `auth.users` or `auth.oidc.issuer`; or `auth.open=true` where that is meant.",
            config_path="auth.users",
        )
    return Guard(
        users,
        tokens,
        requests=Rate(values["rate.requests"]),
        mistakes=Rate(values["rate.mistakes"]),
        local=users is None and tokens is None and not reached and not values["auth.open"],
    )
