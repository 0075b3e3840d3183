"""Each route has a right, and each right a route: a new one without is refused to all."""

from __future__ import annotations

from fastapi.routing import APIRoute

from penstock.gateway.access import users
from penstock.gateway.access.users import Level
from penstock.gateway.app import MORE, PARTS
from support.surface import NAMED_IN_BODY, OF_MANY

ROUTES = {
    f"{method} {route.path}"
    for part in (*PARTS, *MORE)
    for route in part.routes.routes
    if isinstance(route, APIRoute)
    for method in route.methods
}


def test_each_route_has_a_right_and_each_right_a_route():
    assert users.NEEDED.keys() | users.OPEN == ROUTES
    assert not users.NEEDED.keys() & users.OPEN


def test_who_only_looks_changes_nothing():
    asks = {"PUT /connector-plugins/{plugin}/config/validate"}  # it changes nothing
    for route, level in users.NEEDED.items():
        if not route.startswith("GET ") and route not in asks:
            assert level > Level.VIEWER, route


def test_what_is_named_or_told_of_many_is_a_route():
    assert NAMED_IN_BODY | OF_MANY <= ROUTES
    for route in ROUTES - NAMED_IN_BODY - OF_MANY:
        tells = "{connector}" in route or users.NEEDED.get(route) in {Level.ADMIN, None}
        cluster_wide = route in {
            "GET /", "GET /openapi.json", "GET /connector-plugins", "GET /v1/cluster",
            "GET /connector-plugins/{plugin}/config", "GET /getClusterInfo", "GET /plugin/list",
            "PUT /connector-plugins/{plugin}/config/validate", "GET /plugin/list/connectors",
            "GET /admin/loggers", "GET /admin/loggers/{logger}",
        }  # fmt: skip
        assert tells or cluster_wide, f"{route}: whose is it?"
