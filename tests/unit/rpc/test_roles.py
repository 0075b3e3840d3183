"""Every method has its roles: a new one without a rule is refused to all, and told here."""

from __future__ import annotations

import pytest

from penstock.api.config.v1 import config_service_pb2
from penstock.api.offset.v1 import offset_service_pb2
from penstock.api.scheduler.v1 import scheduler_service_pb2
from penstock.api.worker.v1 import worker_service_pb2
from penstock.rpc import roles

FILES = (config_service_pb2, offset_service_pb2, scheduler_service_pb2, worker_service_pb2)

METHODS = sorted(
    f"/{service.full_name}/{method.name}"
    for file in FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
)


def test_each_method_has_a_rule_and_each_rule_a_method():
    assert sorted(roles.ALLOWED) == METHODS


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("role", [None, "stranger", *sorted(roles.ROLES)])
def test_who_is_not_named_is_refused(method, role):
    allowed = role in roles.ALLOWED[method]
    assert roles.may_call(method, [role] if role else []) is allowed


def test_a_method_that_nobody_knows_is_refused_to_all():
    assert not roles.may_call("/penstock.api.config.v1.ConfigService/Newest", roles.ROLES)


def test_nobody_but_workers_moves_a_task():
    for method in ("ClaimTask", "CommitOffsets"):
        assert roles.ALLOWED[f"/penstock.api.offset.v1.OffsetService/{method}"] == {"worker"}


def test_who_only_looks_changes_nothing():
    changing = ("Create", "Put", "Patch", "Delete", "Set", "Reset", "Rewind", "Alter", "Drain",
                "Rollback", "Request", "Upload", "Claim", "Commit", "Reload", "Note")  # fmt: skip
    for method in METHODS:
        if method.rpartition("/")[2].startswith(changing):
            assert roles.VIEWER not in roles.ALLOWED[method], method


def test_roles_are_names_of_the_certificate():
    assert roles.roles_of([b"worker.penstock", "node-1.example", b"\xff"]) == ["worker"]
    assert roles.roles_of([]) == []
    assert roles.name_of("config") == "config.penstock"


@pytest.mark.parametrize("method", ["/grpc.health.v1.Health/Check"])
def test_probes_need_a_role(method):
    assert roles.may_call(method, ["viewer"])
    assert not roles.may_call(method, ["stranger"])
