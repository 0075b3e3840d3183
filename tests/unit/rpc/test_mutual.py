"""Services know each other by certificates: who has none, another's, or an old one is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
import ssl
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from penstock.api.config.v1 import config_service_pb2_grpc as config_grpc
from penstock.api.config.v1.config_service_pb2_grpc import add_ConfigServiceServicer_to_server
from penstock.api.offset.v1 import offset_service_pb2_grpc as offset_grpc
from penstock.api.scheduler.v1 import scheduler_service_pb2_grpc as scheduler_grpc
from penstock.api.worker.v1 import worker_service_pb2_grpc as worker_grpc
from penstock.client import ConfigClient
from penstock.config.service import ConfigService
from penstock.model.errors import AuthError, ConfigError, PenstockError
from penstock.rpc import access_control
from penstock.rpc.access_control import ALLOWED, GATEWAY, OPERATOR, VIEWER
from penstock.rpc.channels import MutualTls
from penstock.rpc.server import Server
from penstock.store.sqlite import SqliteStore
from support.certificates import Authority

EVERY_SERVICE = (
    (add_ConfigServiceServicer_to_server, config_grpc.ConfigServiceServicer),
    (offset_grpc.add_OffsetServiceServicer_to_server, offset_grpc.OffsetServiceServicer),
    (
        scheduler_grpc.add_SchedulerServiceServicer_to_server,
        scheduler_grpc.SchedulerServiceServicer,
    ),
    (worker_grpc.add_WorkerServiceServicer_to_server, worker_grpc.WorkerServiceServicer),
)
"""What protoc made: each answers that it is not implemented."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def shown(authority, name):
    return MutualTls(authority.ca, *authority.sign(f"{name}.penstock"))


@pytest.fixture
def served(authority, tmp_path):
    """Run a test against a config service that asks for certificates."""

    def run(test):
        async def main():
            store = await SqliteStore.open(tmp_path / "state.db")
            server = Server("127.0.0.1:0", tls=shown(authority, "config"))
            server.add(add_ConfigServiceServicer_to_server, ConfigService(store))
            try:
                async with asyncio.timeout(60), server:
                    await test(server.address)
            finally:
                await store.close()

        asyncio.run(main())

    return run


async def listed(address, dial):
    async with ConfigClient(address, 3.0, dial) as client:
        return (await client.list()).connectors


def test_a_service_that_may_call_is_answered(served, authority):
    async def test(address):
        assert await listed(address, shown(authority, "worker").dial("config")) == ()

    served(test)


def test_a_role_that_may_not_is_refused_by_name(served, authority):
    async def test(address):
        dial = shown(authority, "worker").dial("config")
        async with ConfigClient(address, 3.0, dial) as client:
            with pytest.raises(
                AuthError, match=r"rpc\.denied.*worker may not call DeleteConnector"
            ):
                await client.delete("orders")

    served(test)


def test_health_can_be_watched_with_a_certificate(served, authority):
    """Its method writes to the context, as no other."""

    async def test(address):
        async with shown(authority, VIEWER).dial("config")(address) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            answer = await watch.read()
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
            watch.cancel()

    served(test)


PEOPLE = {OPERATOR, VIEWER, GATEWAY}
INTERNAL = sorted(method for method, roles in ALLOWED.items() if not roles & PEOPLE)


def test_plans_fencing_and_commits_are_among_services():
    names = {method.rpartition("/")[2] for method in INTERNAL}
    assert names >= {"ClaimTask", "CommitOffsets", "Session", "PlanConnector"}


def test_what_services_say_among_themselves_nobody_else_can_say(authority):
    """Not even by the gateway, which speaks for people; the service that may is let through."""

    async def main():
        server = Server("127.0.0.1:0", tls=shown(authority, "config"))
        for add, nothing in EVERY_SERVICE:
            server.add(add, nothing())
        async with asyncio.timeout(60), server:
            for role in sorted(PEOPLE):
                assert await answers(server.address, role) == {"UNAUTHENTICATED"}, role
            served_by = {role for method in INTERNAL for role in ALLOWED[method]}
            for role in sorted(served_by):
                assert await answers(server.address, role) - {"UNAUTHENTICATED"}, role

    async def answers(address, role):
        async with shown(authority, role).dial("config")(address) as channel:
            return {await answer(channel, method) for method in INTERNAL}

    async def answer(channel, method):
        call = channel.stream_stream(method)(iter([b""]), timeout=10)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        return caught.value.code().name

    asyncio.run(main())


def test_a_change_by_a_persons_certificate_is_told(served, authority, caplog):
    """What the gateway asks for is told there; who only looks is not told of."""

    async def test(address):
        for role in (OPERATOR, VIEWER, GATEWAY):
            async with ConfigClient(address, 3.0, shown(authority, role).dial("config")) as client:
                with pytest.raises(PenstockError):
                    await client.delete("orders\n1")
                with contextlib.suppress(AuthError):  # a viewer's are masked by the gateway
                    await client.list()

    with caplog.at_level(logging.INFO, "penstock.audit"):
        served(test)
    lines = [json.loads(one.message) for one in caplog.records if one.name == "penstock.audit"]
    assert [(one["connector"], one["status"]) for one in lines] == [
        ("orders\n1", "config.not_found"),
        ("orders\n1", "rpc.denied"),
    ]
    assert {one["method"] for one in lines} == {
        "penstock.api.config.v1.ConfigService/DeleteConnector"
    }
    assert all(one["who"] and one["from"].startswith("ipv4:127.0.0.1") for one in lines)


def test_what_changes_something_is_told_of():
    """By the names of methods: one that is neither of these would be told of, too."""
    changing = {
        method.rpartition("/")[2] for method in ALLOWED if not access_control.is_read_only(method)
    }
    assert changing == {
        *("CreateConnector", "PutConnector", "PatchConnector", "DeleteConnector"),
        "PurgeKeptOffsets",
        *("SetTargetState", "RequestRestart", "RollbackConnector", "ResetTopics", "TrackTopics"),
        *("SetLogLevel", "ClaimTask", "CommitOffsets", "AlterOffsets"),
        *("ResetOffsets", "RewindOffsets", "Session", "DrainWorker", "ReloadPlugins"),
        *("PlanConnector", "ApplyConnector", "SignalConnector"),
    }


def test_a_certificate_without_a_role_is_refused(served, authority):
    async def test(address):
        nobody = MutualTls(authority.ca, *authority.sign("node-1.example"))
        with pytest.raises(AuthError, match=r"rpc\.denied"):
            await listed(address, nobody.dial("config"))

    served(test)


def test_who_shows_no_certificate_is_refused_before_any_call(served, authority):
    async def test(address):
        def bare(to):
            trusted = grpc.ssl_channel_credentials(authority.ca.read_bytes())
            name = [("grpc.ssl_target_name_override", "config.penstock")]
            return grpc.aio.secure_channel(to, trusted, options=name)

        for dial in (bare, grpc.aio.insecure_channel):
            with pytest.raises(PenstockError, match=r"rpc\.unavailable"):
                await listed(address, dial)

    served(test)


def test_a_certificate_of_another_authority_is_refused(served, authority, tmp_path):
    async def test(address):
        other = Authority(tmp_path / "other")
        certificate, key = other.sign("worker.penstock")
        with pytest.raises(PenstockError, match=r"rpc\.unavailable"):
            await listed(address, MutualTls(authority.ca, certificate, key).dial("config"))
        with pytest.raises(PenstockError, match=r"rpc\.unavailable"):
            await listed(address, MutualTls(other.ca, certificate, key).dial("config"))

    served(test)


def test_a_certificate_that_has_expired_is_refused(served, authority):
    async def test(address):
        expired = MutualTls(authority.ca, *authority.sign("operator.penstock", days=-1))
        with pytest.raises(PenstockError, match=r"rpc\.unavailable"):
            await listed(address, expired.dial("config"))

    served(test)


def test_a_server_whose_certificate_has_expired_is_refused(authority, tmp_path):
    async def main():
        expired = MutualTls(authority.ca, *authority.sign("config.penstock", days=-1))
        store = await SqliteStore.open(tmp_path / "state.db")
        server = Server("127.0.0.1:0", tls=expired)
        server.add(add_ConfigServiceServicer_to_server, ConfigService(store))
        async with asyncio.timeout(60), server:
            with pytest.raises(PenstockError, match=r"rpc\.unavailable"):
                await listed(server.address, shown(authority, "operator").dial("config"))
        await store.close()

    asyncio.run(main())


def test_a_service_that_is_not_the_one_that_is_meant_is_refused(served, authority):
    async def test(address):
        with pytest.raises(PenstockError, match=r"rpc\.unavailable"):
            await listed(address, shown(authority, "worker").dial("offset"))

    served(test)


def test_old_versions_of_tls_are_refused(served, authority):
    async def test(address):
        host, _, port = address.rpartition(":")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(host, int(port), ssl=context)

    served(test)


def test_a_certificate_is_replaced_while_the_server_runs(authority, tmp_path):
    """What is signed anew, by another authority even, counts from the next connection on."""
    folder = tmp_path / "shown"
    folder.mkdir()

    def put(signed: Authority) -> None:
        certificate, key = signed.sign("config.penstock")
        for source, name in ((signed.ca, "ca"), (certificate, "pem"), (key, "key")):
            shutil.copy(source, folder / name)

    async def main():
        put(authority)
        store = await SqliteStore.open(tmp_path / "state.db")
        server = Server("127.0.0.1:0", tls=MutualTls(*(folder / n for n in ("ca", "pem", "key"))))
        server.add(add_ConfigServiceServicer_to_server, ConfigService(store))
        async with server:
            assert await listed(server.address, shown(authority, "worker").dial("config")) == ()
            other = Authority(tmp_path / "other")
            put(other)
            assert await listed(server.address, shown(other, "worker").dial("config")) == ()
            with pytest.raises(PenstockError):
                await listed(server.address, shown(authority, "worker").dial("config"))
        await store.close()

    asyncio.run(main())


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"tls\.file") as caught:
        MutualTls(Path("/no/ca"), Path("/no/pem"), Path("/no/key")).check()
    assert caught.value.diagnostic.config_path == "tls.authority"
