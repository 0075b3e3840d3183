"""The OpenAPI document: each route is in it, and what is answered is what it says."""

from __future__ import annotations

import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from penstock.gateway import openapi_models
from penstock.gateway.app import KAFKA_ROUTES, NATIVE_ROUTES, build_api
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
        for part in (*KAFKA_ROUTES, *NATIVE_ROUTES)
        for route in part.router.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    assert routed - {"GET /openapi.json"} == described(app)


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/", openapi_models.ServerInfo),
        ("/health", openapi_models.Health),
        ("/connectors", openapi_models.ListedConnectors),
        ("/connectors?expand=status&expand=info", openapi_models.ListedConnectors),
        ("{connector}", openapi_models.ConnectorInfo),
        ("{connector}/config", openapi_models.Config),
        ("{connector}/status", openapi_models.ConnectorState),
        ("{connector}/tasks", openapi_models.Tasks),
        ("{connector}/offsets", openapi_models.Offsets),
        ("/connector-plugins", openapi_models.Plugins),
        ("/connector-plugins/file-sink/config", openapi_models.Keys),
        ("/admin/loggers", openapi_models.Loggers),
        ("/admin/loggers/root", openapi_models.Logger),
        ("/connectors/none", openapi_models.Failure),
    ],
)
def test_answers_are_as_the_document_says(gateway, made, path, model):
    answer = gateway.get(path.format(connector=made()))
    TypeAdapter(model).validate_python(answer.json(), strict=True, extra="forbid")
