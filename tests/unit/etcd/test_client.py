"""Calls and watches against a real etcd: what is answered, what is said when nothing is."""

from __future__ import annotations

import asyncio
import logging
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from penstock.cluster.keys import COMMON
from penstock.etcd import (
    CompactedError,
    Etcd,
    EtcdSettings,
    Member,
    Membership,
    OutcomeUnknownError,
    Tls,
    agree_on_trait,
    claim_cluster,
    operations,
    verify_cluster,
)
from penstock.model.errors import AuthError, ConfigError, RetriableError
from penstock.telemetry.redaction import Secret
from support.etcd import EtcdServers
from support.processes import free_ports

KEYS = {key.name for key in COMMON}


def connecting(settings, test=None):
    async def main():
        client = await Etcd.connect(settings)
        try:
            async with asyncio.timeout(60):
                return await test(client) if test else None
        finally:
            await client.close()

    return asyncio.run(main())


def test_a_range_has_its_prefix_only_pages_and_one_revision(with_client):
    async def test(client):
        keys = [f"{client.prefix}p/{i:03d}" for i in range(250)]
        await client.txn(
            [], operations.pack([operations.put(k, b"1") for k in keys], 0, 128), stage="fill"
        )
        first = await client.range(f"{client.prefix}p/", limit=100)
        await client.txn([], [operations.put(keys[-1], b"2")], stage="change")
        rest = await client.range(f"{client.prefix}p/", first.entries[-1].key, 0, first.revision)
        assert [e.key for e in (*first.entries, *rest.entries)] == keys
        assert rest.entries[-1].value == b"1"
        assert not (await client.range(f"{client.prefix}p/", f"{client.prefix}q")).entries

    with_client(test)


def test_a_watch_resumes_where_it_was_when_its_channel_is_left(with_client):
    async def test(client):
        seen = []

        async def follow():
            async for events in client.watch(client.prefix, client.revision):
                seen.extend(int(value) for _, value in events.changes)
                if 199 in seen:
                    return

        following = asyncio.create_task(follow())
        for i in range(200):
            await client.txn(
                [], [operations.put(f"{client.prefix}k", b"%d" % i)], stage="t", repeat=True
            )
            if i % 40 == 39:
                client._calls.channel.switch_member(client._calls.channel.generation)
        await following
        assert seen == list(range(200))

    with_client(test)


def test_a_watch_says_what_it_cannot_tell_any_more(servers, with_client):
    async def test(client):
        key = f"{client.prefix}k"
        first = (await client.txn([], [operations.put(key, b"1")], stage="t")).revision
        await client.txn([], [operations.put(key, b"2")], stage="t")
        last = (await client.txn([], [operations.put(key, b"3")], stage="t")).revision
        servers.control(0, "compact", str(last))
        with pytest.raises(CompactedError):
            await anext(client.watch(key, first))
        with pytest.raises(CompactedError):
            await client.range(client.prefix, revision=first)
        with pytest.raises(CompactedError, match="restored from a backup"):
            await anext(client.watch(key, last + 1000))

    with_client(test)


def test_200_mb_of_others_keys_neither_reach_a_watch_nor_delay_it(tmp_path):
    with EtcdServers(tmp_path) as servers:

        async def test(client):
            seen = []

            async def follow():
                async for events in client.watch(client.prefix, client.revision):
                    seen.extend(events.changes)
                    return

            following = asyncio.create_task(follow())
            for n in range(200):
                large = operations.put(f"foreign/{n}", bytes(1_000_000))
                await client.txn([], [large], stage="t", repeat=True)
            await client.txn([], [operations.put(f"{client.prefix}ours", b"1")], stage="t")
            await following
            assert seen == [(f"{client.prefix}ours", b"1")]
            assert len((await client.range(client.prefix)).entries) == 1

        connecting(servers.patient_settings(), test)


def test_a_condition_that_fails_answers_what_is_there(with_client):
    async def test(client):
        key = f"{client.prefix}k"
        done = await client.txn(
            [operations.mod_revision_is(key, 0)], [operations.put(key, b"1")], stage="t"
        )
        assert done.succeeded
        again = await client.txn(
            [operations.mod_revision_is(key, 0)],
            [operations.put(key, b"2")],
            [operations.read(key)],
            stage="t",
        )
        assert not again.succeeded
        assert again.reads[0].entries[0].value == b"1"
        assert again.reads[0].entries[0].mod_revision == done.revision

    with_client(test)


@pytest.mark.timed("`connect_timeout_s` is a promise of seconds")
def test_etcd_away_at_the_start_is_told_with_addresses_and_time(caplog):
    ports = free_ports(2)
    endpoints = tuple(f"127.0.0.1:{port}" for port in ports)
    began = time.monotonic()
    with caplog.at_level(logging.WARNING), pytest.raises(RetriableError) as caught:
        connecting(EtcdSettings(endpoints, connect_timeout_s=3.0))
    assert caught.value.code == "etcd.unreachable"
    assert all(endpoint in str(caught.value) for endpoint in endpoints)
    assert "within 3 s" in str(caught.value)
    assert 2.5 < time.monotonic() - began < 6
    assert "more" in caplog.text, "nothing said how long it goes on"


def test_the_last_second_before_giving_up_is_no_storm_of_warnings(caplog):
    (port,) = free_ports(1)
    with caplog.at_level(logging.WARNING), pytest.raises(RetriableError):
        connecting(EtcdSettings((f"127.0.0.1:{port}",), connect_timeout_s=3.0))
    told = [record.getMessage() for record in caplog.records]
    assert 1 <= len(told) <= 9, told
    assert not any("for 0.0 s more" in one for one in told)


def test_a_service_waits_for_an_etcd_that_starts_later(tmp_path):
    servers = EtcdServers(tmp_path)

    async def main():
        connecting = asyncio.create_task(Etcd.connect(servers.settings()))
        await asyncio.sleep(0)
        await asyncio.to_thread(servers.start)
        client = await asyncio.wait_for(connecting, 60)
        await client.close()

    try:
        asyncio.run(main())
    finally:
        servers.close()


def test_a_write_whose_answer_is_lost_says_so_and_a_read_is_tried_again(tmp_path):
    with EtcdServers(tmp_path) as servers:

        async def test(client):
            servers.pause(0)
            with pytest.raises(OutcomeUnknownError, match="stage put"):
                await client.txn([], [operations.put("/k", b"1")], stage="put")
            reading = asyncio.create_task(client.get("/k"))
            await asyncio.sleep(0)
            servers.resume(0)
            await reading

        connecting(servers.settings(call_timeout_s=0.3), test)


@pytest.mark.timed("`retry_timeout_s` is a promise of seconds")
def test_a_call_gives_up_in_time_and_names_its_stage(tmp_path):
    with EtcdServers(tmp_path) as servers:

        async def test(client):
            servers.pause(0)
            began = time.monotonic()
            with pytest.raises(RetriableError, match="stage get /k: none of 127") as caught:
                await client.get("/k")
            assert caught.value.code == "etcd.unreachable"
            assert time.monotonic() - began < 4

        connecting(servers.settings(call_timeout_s=0.3, retry_timeout_s=1.0), test)


def test_endpoints_of_two_etcd_clusters_are_noticed(tmp_path):
    with EtcdServers(tmp_path / "a") as one, EtcdServers(tmp_path / "b") as other:

        async def test(client):
            one.kill(0)
            with pytest.raises(ConfigError, match=r"etcd\.other_cluster"):
                await client.get("/k")

        connecting(EtcdSettings((*one.endpoints, *other.endpoints)), test)


def test_two_clusters_with_one_name_are_noticed_by_what_they_disagree_on(with_client):
    async def test(client):
        ours = await claim_cluster(client, {"store": "postgresql at a"})
        assert await claim_cluster(client, {"store": "postgresql at a", "newer": "trait"}) == ours
        told = r"cluster\.name_taken.*postgresql at a there.*at cluster\.name\)"
        with pytest.raises(ConfigError, match=told):
            await claim_cluster(client, {"store": "postgresql at b"})

    with_client(test)


def test_a_trait_that_a_later_service_adds_binds_all_after_it(with_client):
    async def test(client):
        await claim_cluster(client, {"config.store": "etcd"})
        await asyncio.gather(
            claim_cluster(client, {"offset.store": "postgresql a"}),
            claim_cluster(client, {"topics": "/t"}),
        )
        for other in ({"config.store": "?"}, {"offset.store": "?"}, {"topics": "?"}):
            with pytest.raises(ConfigError, match=r"cluster\.name_taken"):
                await claim_cluster(client, other)

    with_client(test)


def test_what_is_only_compared_is_not_written_down(with_client):
    async def test(client):
        await verify_cluster(client, {"store": "postgresql at a"})
        await claim_cluster(client, {"store": "postgresql at b"})
        with pytest.raises(ConfigError, match=r"cluster\.name_taken"):
            await verify_cluster(client, {"store": "postgresql at a"})

    with_client(test)


def test_what_is_settled_binds_while_a_member_is_alive(with_client):
    async def test(client):
        await claim_cluster(client, {"store": "etcd"})
        assert await agree_on_trait(client, "topics", "/a", "worker") == "/a"
        other = Membership(client, "config", "c", Member("host:1"), 60)
        member = Membership(client, "worker", "w", Member("host:2"), 60)
        for one in (other, member):
            one.start()
            await one.wait_until_registered()
        assert await agree_on_trait(client, "topics", "/b", "worker") == "/a"
        assert await agree_on_trait(client, "topics", "/a", "worker") == "/a"
        await member.stop()
        assert await agree_on_trait(client, "topics", "/b", "worker") == "/b"
        await other.stop()
        with pytest.raises(ConfigError, match=r"cluster\.name_taken"):  # the rest stays
            await claim_cluster(client, {"store": "else"})

    with_client(test)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """etcd with users."""
    with EtcdServers(tmp_path_factory.mktemp("auth"), 1, "--auth-token-ttl", "1") as servers:
        for command in (
            "user add root:secret-of-root",
            "user grant-role root root",
            "user add penstock:secret-of-penstock",
            "role add penstock",
            "role grant-permission penstock readwrite /penstock/a/ /penstock/a0",
            "user grant-role penstock penstock",
            "auth enable",
        ):
            servers.control(0, *command.split())
        yield servers


def entering(servers, user="penstock", password="secret-of-penstock", cluster="a"):
    secret = Secret(password) if user else None
    return servers.patient_settings(user=user, password=secret, cluster=cluster)


def test_a_user_enters_and_stays_when_the_token_ends(guarded):
    async def test(client):
        for _ in range(3):
            await client.txn([], [operations.put("/penstock/a/k", b"1")], stage="t", repeat=True)
            client._calls._token = "ended.1"
        lease, _ = await client.grant_lease(60)
        client._calls._token = "ended.1"
        assert await client.keep_alive(lease, 30.0) == 60
        client._calls._token = "ended.1"
        await anext(client.watch("/penstock/a/", 1))

    connecting(entering(guarded), test)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"password": "wrong-password"}, "etcd.credentials_refused"),
        ({"user": "nobody-knows-me"}, "etcd.credentials_refused"),
        ({"user": ""}, "etcd.credentials_missing"),
        ({"cluster": "b"}, "etcd.permission_denied"),
    ],
)
@pytest.mark.timed("a refusal is not tried again for 60 s")
def test_wrong_credentials_are_told_at_once_and_print_no_password(guarded, fields, code):
    began = time.monotonic()
    with pytest.raises(AuthError) as caught:
        connecting(entering(guarded, **fields))
    assert caught.value.code == code
    assert time.monotonic() - began < 5
    assert "wrong-password" not in f"{caught.value} {entering(guarded, **fields)!r}"


def test_a_watch_outside_of_the_permissions_is_refused(guarded):
    async def test(client):
        with pytest.raises(AuthError, match=r"permission_denied"):
            await anext(client.watch("/penstock/b/", 1))

    connecting(entering(guarded), test)


def test_a_user_in_an_etcd_without_users_is_warned_about(servers, caplog):
    with caplog.at_level(logging.WARNING):
        connecting(entering(servers))
    assert "authentication is not enabled" in caplog.text


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority, and one certificate for both ends."""
    folder = tmp_path_factory.mktemp("tls")
    (folder / "ext").write_text(
        "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n"
    )
    new = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    for command in (
        f"{new} -x509 -days 2 -subj /CN=ca -keyout ca.key -out ca.pem",
        f"{new} -subj /CN=penstock -keyout node.key -out node.csr",
        "x509 -req -in node.csr -CA ca.pem -CAkey ca.key -days 2 -extfile ext -out node.pem",
    ):
        openssl = shutil.which("openssl") or pytest.fail("no openssl")
        subprocess.run([openssl, *command.split()], cwd=folder, check=True, capture_output=True)
    return folder


def test_tls_both_ways(tmp_path, certificates):
    def file(name):
        return str(certificates / name)

    options = ("--cert-file", file("node.pem"), "--key-file", file("node.key"))
    trust = ("--client-cert-auth", "--trusted-ca-file", file("ca.pem"))
    authority = certificates / "ca.pem"
    with EtcdServers(tmp_path, 1, *options, *trust) as servers:
        ours = Tls(authority, certificates / "node.pem", certificates / "node.key")

        async def test(client):
            await client.txn([], [operations.put("/k", b"1")], stage="t")

        connecting(servers.patient_settings(tls=ours), test)
        for tls in (None, Tls(authority), Tls()):
            with pytest.raises(RetriableError, match=r"etcd\.unreachable.*expects TLS"):
                connecting(servers.settings(tls=tls, connect_timeout_s=0.5))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"endpoints": ()}, "etcd.bad_endpoint"),
        ({"endpoints": ("http://a:1",)}, "etcd.bad_endpoint"),
        ({"endpoints": ("a",)}, "etcd.bad_endpoint"),
        ({"cluster": "a/b"}, "etcd.bad_cluster"),
        ({"cluster": ""}, "etcd.bad_cluster"),
        ({"user": "a"}, "etcd.no_password"),
    ],
)
def test_settings_that_cannot_be_are_refused(fields, code):
    with pytest.raises(ConfigError) as caught:
        EtcdSettings(**fields)
    assert caught.value.code == code
    assert caught.value.diagnostic.fix
    assert caught.value.diagnostic.config_path in KEYS


def test_half_a_pair_of_files_and_missing_ones_are_refused(servers):
    with pytest.raises(ConfigError, match=r"etcd\.tls_incomplete.*at etcd\.tls\.key\)"):
        Tls(None, Path("a.pem"))
    with pytest.raises(ConfigError, match=r"etcd\.tls_incomplete.*at etcd\.tls\.certificate\)"):
        Tls(None, None, Path("a.key"))
    with pytest.raises(ConfigError, match=r"etcd\.tls_unreadable.*at etcd\.tls\.authority\)"):
        connecting(servers.settings(tls=Tls(Path("/nowhere/ca.pem"))))
