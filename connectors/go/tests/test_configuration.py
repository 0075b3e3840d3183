"""Configuration, descriptions and refusals of the Go SDK, as the Python SDK has them."""

from dataclasses import dataclass

import grpc
import pytest

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1 import plugin_service_pb2
from penstock.api.connector.v1.connector_service_pb2_grpc import ConnectorServiceStub
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from penstock_connector import Source, key
from penstock_connector.testing import Testbed, plan


@dataclass(frozen=True)
class Config:
    limit: int = key(doc="Numbers to give in all.", required=True)
    batch_rows: int = key(1000, doc="Numbers to give at once.")


class Twin(Source[Config]):
    """Counts from zero to a limit."""

    name = "go-numbers"
    bounded = True


GIVEN = [
    {},
    {"limit": ""},
    {"limit": "7"},
    {"limit": "x"},
    {"limit": "7", "batch.row": "1"},
    {"limit": "7", "nothing.like.it": "1"},
    {"limmit": "7", "batch.rows": "1.5"},
    {"limit": " 12 ", "batch.rows": ""},
]


def validated(bed, config):
    target = pb.Target(connector="go-numbers", config=config)
    answer = ConnectorServiceStub(bed.channel).ValidateConfig(
        pb.ValidateConfigRequest(target=target), metadata=bed.metadata, timeout=60
    )
    return sorted(
        (value.name, value.value, [(d.code, d.message, d.fix) for d in value.diagnostics])
        for value in answer.values
    )


def described(bed):
    answer = PluginServiceStub(bed.channel).Describe(
        plugin_service_pb2.DescribeRequest(), metadata=bed.metadata, timeout=60
    )
    return answer.connectors


def test_wrong_values_are_refused_in_the_words_of_the_python_sdk(numbers):
    with Testbed(Twin) as twin:
        for given in GIVEN:
            assert validated(numbers, given) == validated(twin, given), given


def test_a_connector_is_described_as_the_python_sdk_does(numbers):
    with Testbed(Twin) as twin:
        assert list(described(numbers)) == list(described(twin))


def test_the_default_plan_is_one_partition(numbers):
    (ours,) = plan(Twin, {"limit": "1"}, max_tasks=3, bed=numbers)
    assert ours == plan(Twin, {"limit": "1"})[0]


def test_a_check_names_its_steps(numbers):
    def steps(config):
        target = pb.Target(connector="go-numbers", config=config)
        call = ConnectorServiceStub(numbers.channel).CheckConnection(
            pb.CheckConnectionRequest(target=target), metadata=numbers.metadata, timeout=60
        )
        return [(step.step, step.ok, [d.code for d in step.diagnostics]) for step in call]

    assert steps({"limit": "1"}) == [("config", True, []), ("outside", True, [])]
    assert steps({}) == [("config", False, ["config.missing"])]


def test_a_call_without_the_credential_is_refused(numbers):
    stub = PluginServiceStub(numbers.channel)
    for metadata in ((), (("penstock-credential", "another"),)):
        with pytest.raises(grpc.RpcError) as caught:
            stub.Describe(plugin_service_pb2.DescribeRequest(), metadata=metadata, timeout=60)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_an_unknown_connector_is_answered_with_the_nearest(numbers):
    target = pb.Target(connector="go-number")
    with pytest.raises(grpc.RpcError) as caught:
        ConnectorServiceStub(numbers.channel).Plan(
            pb.PlanRequest(target=target), metadata=numbers.metadata, timeout=60
        )
    assert "plugin.unknown_connector" in caught.value.details()
