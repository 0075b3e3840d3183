"""A source lists what can be read: in order, in one thread, and only as much as the host takes."""

import threading
from dataclasses import dataclass

import grpc
import pyarrow as pa
import pytest

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1.connector_service_pb2_grpc import ConnectorServiceStub
from penstock_connector import ConfigError, DataError, Dataset, Sink, Source, key
from penstock_connector.testing import DEADLINE, RemoteError, Testbed, list_datasets

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])


@dataclass(frozen=True)
class Keys:
    """Keys of the shelf."""

    room: str = key(doc="Where it is.", required=True)
    fail_at: int = key(-1, doc="Number of the dataset that fails.")


class Shelf(Source[Keys]):
    """Has very many datasets."""

    name = "shelf"
    threads: set[int] = set()  # noqa: RUF012 - of a test
    left = threading.Event()

    @classmethod
    def list_datasets(cls, config):
        cls.threads.clear()
        cls.left.clear()
        try:
            for number in range(1_000_000):
                cls.threads.add(threading.get_ident())
                if number == config.fail_at:
                    raise DataError("shelf.broken", "a board is broken")
                name = f"{config.room}.{number}"
                yield Dataset(name, f"d{number}", SCHEMA, ("id",), selected=number == 0)
        finally:
            cls.threads.add(threading.get_ident())
            cls.left.set()


class Few(Source):
    """Has a list, one of whose datasets has a problem."""

    name = "few"

    @classmethod
    def list_datasets(cls, config):
        problem = DataError("few.broken", "it is torn")
        return [Dataset("a"), Dataset("b", problem=problem)]


class Mute(Source):
    """Cannot list anything."""

    name = "mute"


class Drain(Sink):
    """Is no source."""

    name = "drain"


def listed_of(bed, config=None, name=""):
    target = pb.Target(connector=name or bed._classes[0].name, config=config or {})
    return ConnectorServiceStub(bed.channel).ListDatasets(
        pb.ListDatasetsRequest(target=target), metadata=bed.metadata, timeout=DEADLINE
    )


def test_datasets_come_with_their_columns():
    found = list_datasets(Few, {})
    assert [(one.name, one.schema, one.selected) for one in found] == [
        ("a", None, True), ("b", None, True),
    ]  # fmt: skip
    assert found[0].problem is None
    assert found[1].problem.code == "few.broken"


def test_a_host_that_has_enough_ends_the_look_up_in_its_thread():
    with Testbed(Shelf) as bed:
        call = listed_of(bed, {"room": "shop"})
        first = next(call).dataset
        assert (first.name, first.dataset, first.selected) == ("shop.0", "d0", True)
        assert list(first.key_columns) == ["id"]
        assert pa.ipc.read_schema(pa.py_buffer(first.arrow_schema)) == SCHEMA
        assert not next(call).dataset.selected
        call.cancel()
        assert Shelf.left.wait(DEADLINE)
    assert len(Shelf.threads) == 1
    assert threading.get_ident() not in Shelf.threads


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({}, "config.missing"),
        ({"room": "shop", "rom": "x"}, "config.unknown_key"),
        ({"room": "shop", "fail.at": "0"}, "shelf.broken"),
        ({"room": "shop", "fail.at": "2"}, "shelf.broken"),
    ],
)
def test_what_goes_wrong_ends_the_list_with_its_diagnostic(config, code):
    with pytest.raises(RemoteError) as raised:
        list_datasets(Shelf, config)
    assert raised.value.code == code


@pytest.mark.parametrize("kind", [Mute, Drain])
def test_a_connector_that_cannot_list_datasets_is_as_one_without_the_method(kind):
    with Testbed(kind) as bed, pytest.raises(grpc.RpcError) as raised:
        list(listed_of(bed))
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "penstock-diagnostic-bin" not in dict(raised.value.trailing_metadata() or ())


def test_an_unknown_connector_is_refused_first():
    with Testbed(Mute) as bed, pytest.raises(grpc.RpcError) as raised:
        list(listed_of(bed, name="nobody"))
    assert raised.value.code() is ConfigError.status
