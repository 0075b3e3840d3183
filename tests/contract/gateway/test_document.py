"""The OpenAPI document: each route is in it, and what is answered is what it says."""

from __future__ import annotations

import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from penstock.gateway import documents
from penstock.gateway.app import MORE, PARTS, framework
from support.surface import KAFKAS


def described(app):
    document = app.openapi()
    return {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
    }


def test_kafka_connects_routes_are_there():
    assert described(framework(None, "")) >= KAFKAS


def test_each_route_is_in_the_document():
    app = framework(None, "")
    routed = {
        f"{method} {route.path}"
        for part in (*PARTS, *MORE)
        for route in part.routes.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    assert routed - {"GET /openapi.json"} == described(app)


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/", documents.ServerInfo),
        ("/health", documents.Health),
        ("/connectors", documents.ListedConnectors),
        ("/connectors?expand=status&expand=info", documents.ListedConnectors),
        ("{connector}", documents.ConnectorInfo),
        ("{connector}/config", documents.Config),
        ("{connector}/status", documents.ConnectorState),
        ("{connector}/tasks", documents.Tasks),
        ("{connector}/offsets", documents.Offsets),
        ("/connector-plugins", documents.Plugins),
        ("/connector-plugins/file-sink/config", documents.Keys),
        ("/admin/loggers", documents.Loggers),
        ("/admin/loggers/root", documents.Logger),
        ("/connectors/none", documents.Failure),
    ],
)
def test_answers_are_as_the_document_says(gateway, made, path, model):
    answer = gateway.get(path.format(connector=made()))
    TypeAdapter(model).validate_python(answer.json(), strict=True, extra="forbid")
