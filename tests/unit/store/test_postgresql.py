"""The driver for PostgreSQL: what goes wrong, and how it says so."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import replace

import pytest

from penstock.model.errors import ConfigError, PenstockError
from penstock.store.postgresql.settings import PostgresqlSettings
from penstock.store.postgresql.store import MAX_WRITE_BYTES, PostgresqlStore
from penstock.telemetry.redaction import Secret
from support.postgresql import PostgresqlServer
from support.processes import free_ports


@pytest.fixture(scope="module")
def server():
    """One PostgreSQL for these tests."""
    with PostgresqlServer() as server:
        yield server


def running(settings, test=None):
    async def main():
        store = await PostgresqlStore.open(settings)
        try:
            async with asyncio.timeout(60):
                return await test(store) if test else None
        finally:
            await store.close()

    return asyncio.run(main())


def test_a_server_away_at_the_start_is_told_after_the_time_it_was_waited_for(caplog):
    url = f"postgresql://u@127.0.0.1:{free_ports(1)[0]}/db"
    with caplog.at_level(logging.WARNING), pytest.raises(PenstockError) as caught:
        running(PostgresqlSettings(Secret(url), connect_timeout_s=1.0))
    assert caught.value.code == "store.unreachable"
    assert "more" in caplog.text


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("@/postgres", "@/nowhere", "store.no_database"),
        ("penstock@", "stranger@", "store.credentials_refused"),
        ("postgresql://", "mysql://", "store.bad_url"),
    ],
)
def test_wrong_settings_are_told_at_once(server, old, new, code):
    url = server.settings().url.reveal().replace(old, new)
    with pytest.raises(PenstockError) as caught:
        running(PostgresqlSettings(Secret(url)))
    assert caught.value.code == code
    assert caught.value.diagnostic.fix
    assert url not in f"{caught.value} {PostgresqlSettings(Secret(url))!r}"


def test_a_user_that_may_not_make_the_schema_is_told(server):
    server.sql("CREATE USER guest")
    with pytest.raises(PenstockError, match=r"store\.permission_denied"):
        running(server.settings("of_guest", "guest"))


def test_the_state_of_a_newer_version_is_refused(server):
    running(server.settings("newer"))
    server.sql("UPDATE newer.state SET layout = 99")
    with pytest.raises(ConfigError, match=r"store\.newer"):
        running(server.settings("newer"))


def test_processes_that_come_at_once_make_one_schema(server):
    async def main():
        opening = (PostgresqlStore.open(server.settings("raced")) for _ in range(5))
        stores = await asyncio.gather(*opening)
        await asyncio.gather(*(store.close() for store in stores))

    asyncio.run(main())


def test_a_name_that_could_be_more_than_a_name_is_refused(server):
    with pytest.raises(ConfigError, match=r"store\.bad_schema"):
        server.settings('x"; DROP TABLE entry')


def test_without_the_extra_it_says_what_to_install(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ConfigError, match=r"store\.no_driver.*penstock\[postgresql\]"):
        running(server.settings())


def test_writes_are_durable_whatever_the_server_is_set_to(server):
    async def test(store):
        await store.write([], [("a", b"1")])
        assert await store._writer._connection.fetchval("SHOW synchronous_commit") == "on"

    server.sql("ALTER SYSTEM SET synchronous_commit = off")
    server.sql("SELECT pg_reload_conf()")
    running(server.settings("durable"), test)


def test_waiting_writes_share_a_transaction(server):
    async def test(store):
        await asyncio.gather(*(store.write([], [(str(i), b"x")]) for i in range(200)))
        numbers = store.statistics()
        assert numbers["writes"] == 200
        assert numbers["groups"] < 50

    running(server.settings("grouped"), test)


def test_a_write_whose_answer_was_lost_happens_once(server):
    """The commit went through, and the connection broke before it said so."""

    async def test(store):
        revision = await store.write([], [("n", b"0")])
        writer = store._writer
        real, broken = writer._transaction, []

        async def breaking(connection, group):
            decision = await real(connection, group)
            if not broken:
                broken.append(connection.terminate())
                raise OSError("the connection broke")
            return decision

        writer._transaction = breaking
        assert await store.write([], [("n", b"1")]) == revision + 1
        assert broken
        assert (await store.range("")).revision == revision + 1

    running(server.settings("once"), test)


def test_a_writer_that_hangs_in_its_transaction_does_not_hold_up_the_others_for_ever(server):
    async def main():
        one = await PostgresqlStore.open(server.settings("hung"))
        await one.write([], [("a", b"1")])
        hung = await server.settings("hung").connect()
        await hung.execute("BEGIN")
        await hung.execute("SELECT revision FROM state FOR UPDATE")
        async with asyncio.timeout(60):
            await one.write([], [("a", b"2")])
        hung.terminate()
        await one.close()

    asyncio.run(main())


def test_a_write_over_the_limit_is_refused(server):
    async def test(store):
        with pytest.raises(ConfigError, match=r"store\.write_too_large"):
            await store.write([], [("a", b"x" * (MAX_WRITE_BYTES + 1))])

    running(replace(server.settings("large"), retry_timeout_s=1.0), test)
