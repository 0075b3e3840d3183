"""Every method has its roles: a new one without a rule is refused to all, and told here."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest
from google.protobuf import descriptor_pb2

import penstock.api
from penstock.rpc import access_control

ELSEWHERE = {
    f"penstock.api.connector.v1.{of}Service"
    for of in ("Plugin", "Connector", "Source", "Sink", "Transform", "Converter", "Host")
}
"""What no service of ours serves: plugins do, and their host with a credential for each."""


def methods(package: ModuleType) -> list[str]:
    """The methods of every module that is generated of protos, below a package."""
    walked = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    names = [module.name for module in walked if module.name.endswith("_pb2")]
    return sorted(
        f"/{service.full_name}/{method.name}"
        for name in names
        for service in importlib.import_module(name).DESCRIPTOR.services_by_name.values()
        for method in service.methods
        if service.full_name not in ELSEWHERE
    )


METHODS = methods(penstock.api)


def test_a_service_of_a_new_file_is_seen(tmp_path, monkeypatch):
    """The twin: what is found depends on the files that there are."""
    folder = tmp_path / "newer"
    folder.mkdir()
    file = descriptor_pb2.FileDescriptorProto(name="newer.proto", package="penstock.api.newer")
    file.message_type.add(name="Empty")
    file.service.add(name="NewService").method.add(
        name="Ask", input_type=".penstock.api.newer.Empty", output_type=".penstock.api.newer.Empty"
    )
    (folder / "__init__.py").touch()
    (folder / "new_pb2.py").write_text(
        "from google.protobuf import descriptor_pool\n"
        f"pool = descriptor_pool.DescriptorPool()\n"
        f"pool.AddSerializedFile({file.SerializeToString()!r})\n"
        "DESCRIPTOR = pool.FindFileByName('newer.proto')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = methods(importlib.import_module("newer"))
    assert found == ["/penstock.api.newer.NewService/Ask"]
    assert not set(found) & access_control.ALLOWED.keys()
    assert not access_control.may_call(found[0], access_control.ROLES)


def test_each_method_has_a_rule_and_each_rule_a_method():
    assert sorted(access_control.ALLOWED) == METHODS


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("role", [None, "stranger", *sorted(access_control.ROLES)])
def test_who_is_not_named_is_refused(method, role):
    allowed = role in access_control.ALLOWED[method]
    assert access_control.may_call(method, [role] if role else []) is allowed


def test_a_method_that_nobody_knows_is_refused_to_all():
    assert not access_control.may_call(
        "/penstock.api.config.v1.ConfigService/Newest", access_control.ROLES
    )


def test_nobody_but_workers_moves_a_task():
    for method in ("ClaimTask", "CommitOffsets"):
        assert access_control.ALLOWED[f"/penstock.api.offset.v1.OffsetService/{method}"] == {
            "worker"
        }


def test_who_only_looks_changes_nothing():
    changing = ("Create", "Put", "Patch", "Delete", "Set", "Reset", "Rewind", "Alter", "Drain",
                "Rollback", "Request", "Upload", "Claim", "Commit", "Reload", "Note")  # fmt: skip
    for method in METHODS:
        if method.rpartition("/")[2].startswith(changing):
            assert access_control.VIEWER not in access_control.ALLOWED[method], method


def test_roles_are_names_of_the_certificate():
    assert access_control.roles_from_names([b"worker.penstock", "node-1.example", b"\xff"]) == [
        "worker"
    ]
    assert access_control.roles_from_names([]) == []
    assert access_control.certificate_name("config") == "config.penstock"


@pytest.mark.parametrize("method", ["/grpc.health.v1.Health/Check"])
def test_probes_need_a_role(method):
    assert access_control.may_call(method, ["viewer"])
    assert not access_control.may_call(method, ["stranger"])
