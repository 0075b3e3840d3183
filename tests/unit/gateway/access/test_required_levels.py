"""Each route has a right, and each right a route: a new one without is refused to all."""

from __future__ import annotations

from fastapi.routing import APIRoute

from penstock.gateway import rocketmq_connect
from penstock.gateway.access import users
from penstock.gateway.access.users import Level
from penstock.gateway.app import KAFKA_ROUTERS, NATIVE_ROUTERS
from penstock.gateway.routes import rocketmq
from support.surface import NAMED_IN_BODY, OF_MANY


def routes_of(*routers):
    return {
        f"{method} {route.path}"
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }


ROUTES = routes_of(*KAFKA_ROUTERS, *NATIVE_ROUTERS)


def test_each_route_has_a_right_and_each_right_a_route():
    assert users.REQUIRED_LEVELS.keys() | users.OPEN_ROUTES == ROUTES
    assert not users.REQUIRED_LEVELS.keys() & users.OPEN_ROUTES


def test_a_route_of_rocketmqs_listeners_has_a_right_and_a_change_is_known_as_one():
    levels = users.ROCKETMQ_LEVELS
    assert levels.keys() == routes_of(rocketmq.information, rocketmq_connect.router)
    for route, level in levels.items():
        method, path = route.split()
        changes = rocketmq_connect.is_change(method, path.replace("{connector}", "c"))
        assert changes is (level > Level.VIEWER), route


def test_who_only_looks_changes_nothing():
    checks = {"PUT /connector-plugins/{plugin}/config/validate"}  # it changes nothing
    for route, level in users.REQUIRED_LEVELS.items():
        if not route.startswith("GET ") and route not in checks:
            assert level > Level.VIEWER, route


def test_what_is_named_or_told_of_many_is_a_route():
    assert NAMED_IN_BODY | OF_MANY <= ROUTES
    for route in ROUTES - NAMED_IN_BODY - OF_MANY:
        tells = "{connector}" in route or users.REQUIRED_LEVELS.get(route) in {Level.ADMIN, None}
        cluster_wide = route in {
            "GET /", "GET /openapi.json", "GET /connector-plugins", "GET /v1/cluster",
            "GET /connector-plugins/{plugin}/config", "GET /getClusterInfo", "GET /plugin/list",
            "PUT /connector-plugins/{plugin}/config/validate", "GET /plugin/list/connectors",
            "GET /admin/loggers", "GET /admin/loggers/{logger}", "GET /ui", "GET /ui/page.css",
            "GET /ui/page.mjs",
        }  # fmt: skip
        assert tells or cluster_wide, f"{route}: whose is it?"
