"""`/admin/loggers`: levels of all workers, or of the cluster."""

from __future__ import annotations

import pytest

LEVELS = {"DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"}


def test_loggers_have_levels(gateway):
    found = gateway.get("/admin/loggers").json()
    assert found["root"]["level"] in LEVELS
    assert all(set(one) == {"level", "last_modified"} for one in found.values())
    assert {one["level"] for one in found.values()} <= LEVELS


def test_a_level_is_set_with_what_is_below(gateway):
    assert gateway.put("/admin/loggers/penstock.a.b", {"level": "INFO"}).status_code == 200
    answer = gateway.put("/admin/loggers/penstock.a", {"level": "debug"})
    assert (answer.status_code, answer.json()) == (200, ["penstock.a", "penstock.a.b"])
    assert gateway.get("/admin/loggers/penstock.a").json()["level"] == "DEBUG"
    assert gateway.get("/admin/loggers/penstock.a.c").json()["level"] == "DEBUG"


def test_a_logger_that_nothing_has_a_level_for_is_not_found(gateway):
    gateway.put("/admin/loggers/org.apache.kafka.connect", {"level": "INFO"})
    for known in ("org.apache", "org.apache.kafka.connect.runtime.WorkerSinkTask", "root"):
        assert gateway.get(f"/admin/loggers/{known}").status_code == 200, known
    answer = gateway.get("/admin/loggers/com.example.nothing")
    assert (answer.status_code, answer.json()["code"]) == (404, "config.log_logger")
    assert "com.example.nothing not found" in answer.json()["message"]


def test_the_clusters_level_counts_from_now_on(gateway):
    gateway.put("/admin/loggers/penstock.c", {"level": "ERROR"})
    answer = gateway.put("/admin/loggers/penstock.c?scope=cluster", {"level": "WARN"})
    assert (answer.status_code, answer.content) == (204, b"")
    found = gateway.get("/admin/loggers/penstock.c").json()
    assert found["level"] == "WARN"
    assert found["last_modified"] > 1_700_000_000_000


@pytest.mark.parametrize(
    ("logger", "body", "status"),
    [
        ("penstock.x", {}, 400),
        ("penstock.x", {"level": ""}, 400),
        ("penstock.x", {"level": ["INFO"]}, 400),
        ("penstock.x", {"level": 5}, 404),
        ("penstock.x", [], 400),
        ("penstock.x", {"level": "LOUD"}, 404),
        ("no logger", {"level": "INFO"}, 404),
    ],
)
def test_what_is_no_level_or_no_logger_is_refused(gateway, logger, body, status):
    assert gateway.put(f"/admin/loggers/{logger}", body).status_code == status
