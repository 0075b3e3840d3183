"""The OpenAPI document: each route is in it, and what is answered is what it says."""

from __future__ import annotations

import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from penstock.gateway.app import KAFKA_ROUTERS, NATIVE_ROUTERS, build_api
from penstock.gateway.bodies import Failure
from penstock.gateway.routes import bodies
from support.surface import KAFKAS


def described(app):
    document = app.openapi()
    return {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
    }


def test_kafka_connects_routes_are_there():
    assert described(build_api(None, "")) >= KAFKAS


def test_each_route_is_in_the_document():
    app = build_api(None, "")
    routed = {
        f"{method} {route.path}"
        for router in (*KAFKA_ROUTERS, *NATIVE_ROUTERS)
        for route in router.routes
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in route.methods
    }
    assert routed == described(app)


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/", bodies.ServerInfo),
        ("/health", bodies.Health),
        ("/connectors", bodies.ListedConnectors),
        ("/connectors?expand=status&expand=info", bodies.ListedConnectors),
        ("{connector}", bodies.ConnectorInfo),
        ("{connector}/config", bodies.Config),
        ("{connector}/status", bodies.ConnectorState),
        ("{connector}/tasks", bodies.Tasks),
        ("{connector}/offsets", bodies.Offsets),
        ("/connector-plugins", bodies.Plugins),
        ("/connector-plugins/file-sink/config", bodies.Keys),
        ("/admin/loggers", bodies.Loggers),
        ("/admin/loggers/root", bodies.Logger),
        ("/connectors/none", Failure),
    ],
)
def test_answers_are_as_the_document_says(gateway, made, path, model):
    answer = gateway.get(path.format(connector=made()))
    TypeAdapter(model).validate_python(answer.json(), strict=True, extra="forbid")
