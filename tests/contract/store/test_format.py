"""Versions that do not fit together: a store of a newer Penstock, a server that is too old."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.etcd import Etcd, errors
from penstock.model.errors import ConfigError, InternalError
from penstock.store.etcd import EtcdStore
from penstock.store.port import FORMAT, Store
from penstock.store.postgresql import store as schema
from penstock.store.postgresql.store import PostgresqlStore
from penstock.store.sealed_store import Seal, SealedStore
from penstock.store.sqlite import SqliteStore


@pytest.fixture
def stamped(driver, request, tmp_path) -> tuple[Callable, Callable[[str], None]]:
    """How a store is opened, and how another version stamps it."""
    if driver == "sqlite":
        return lambda: SqliteStore.open(tmp_path / "state.db"), lambda to: _sqlite(tmp_path, to)
    if driver == "sealed":
        return lambda: _sealed(tmp_path / "state.db"), lambda to: _sqlite(tmp_path, to)
    if driver == "restored":
        server = request.getfixturevalue("etcd")
    else:
        server = request.getfixturevalue(driver)
    name = f"format-{request.node.name}"[:40].replace("[", "-").replace("]", "").replace("_", "-")
    if driver == "postgresql":
        settings = server.settings(name.replace("-", "_"))
        sql = f"UPDATE {settings.schema}.state SET layout = "
        return lambda: PostgresqlStore.open(settings), lambda to: server.sql(sql + to)
    settings = server.settings(cluster=name)
    key = f"{settings.prefix}format"
    return lambda: EtcdStore.open(settings), lambda to: server.control(0, "put", key, to)


async def _sealed(path: Path) -> Store:
    return SealedStore(await SqliteStore.open(path), Seal([bytes(32)]))


def _sqlite(folder: Path, to: str) -> None:
    other = sqlite3.connect(folder / "state.db")
    other.execute(f"PRAGMA user_version = {to}")
    other.close()


async def written(make, value: bytes) -> dict[str, bytes]:
    """Open a store, write, and return all that is there."""
    store = await make()
    await store.write([], [("k", value)])
    page = await store.range("")
    await store.close()
    return {entry.key: entry.value for entry in page.entries}


def test_the_store_of_a_newer_version_is_refused_and_left_as_it_is(stamped):
    make, stamp = stamped

    async def main():
        assert await written(make, b"1") == {"k": b"1"}  # the stamp is no key of the port
        stamp(str(FORMAT + 1))
        for _ in range(2):
            with pytest.raises(ConfigError, match=rf"store\.newer.*{FORMAT + 1}.*knows {FORMAT}"):
                await written(make, b"2")
        stamp(str(FORMAT))
        store = await make()
        assert (await store.get("k"))["k"].value == b"1"
        await store.close()

    asyncio.run(main())


def test_the_store_of_this_version_or_an_older_one_is_opened_again(stamped):
    make, stamp = stamped

    async def main():
        for value in (b"1", b"2"):
            assert await written(make, value) == {"k": value}
        stamp(str(FORMAT - 1))
        assert await written(make, b"3") == {"k": b"3"}

    asyncio.run(main())


def test_several_that_open_a_new_store_at_once_agree(etcd):
    settings = etcd.patient_settings(cluster="format-raced")

    async def main():
        stores = await asyncio.gather(*(EtcdStore.open(settings) for _ in range(5)))
        await asyncio.gather(*(store.close() for store in stores))

    asyncio.run(main())


@pytest.mark.parametrize("stamp", ["two", "", "1.5"])
def test_a_stamp_that_cannot_be_read_is_taken_for_a_newer_one(etcd, stamp):
    settings = etcd.patient_settings(cluster=f"format-odd{len(stamp)}")
    etcd.control(0, "put", f"{settings.prefix}format", "--", stamp)
    with pytest.raises(ConfigError, match=r"store\.newer"):
        asyncio.run(EtcdStore.open(settings))


def test_an_etcd_that_is_too_old_is_refused(etcd, monkeypatch):
    monkeypatch.setattr(errors, "MIN_VERSION", (99, 0))
    settings = etcd.patient_settings(cluster="old")
    with pytest.raises(ConfigError, match=r"etcd\.unsupported_version.* is etcd 3\..*99\.0"):
        asyncio.run(Etcd.connect(settings))
    with pytest.raises(ConfigError, match=r"store\.unsupported_version"):
        asyncio.run(EtcdStore.open(settings))


@pytest.mark.parametrize(
    ("version", "fits"),
    [("3.3.27", False), ("2.3.8", False), ("3.4.0", True), ("3.6.0-rc.1", True), ("4.0", True),
     ("", True), ("unknown", True)],
)  # fmt: skip
def test_versions_of_etcd_are_compared_as_numbers(version, fits):
    if fits:
        errors.check_version("here", version)
    else:
        with pytest.raises(ConfigError, match=rf"here is etcd {version}"):
            errors.check_version("here", version)


def test_a_postgresql_that_is_too_old_is_refused(postgresql, monkeypatch):
    monkeypatch.setattr(schema, "MIN_VERSION", 99)
    with pytest.raises(ConfigError, match=r"store\.unsupported_version.*oldest supported"):
        asyncio.run(PostgresqlStore.open(postgresql.settings("old")))


def test_nothing_is_made_where_a_server_is_too_old(postgresql, monkeypatch):
    """The twin: what is refused has no schema afterwards, what is taken has one."""
    settings = postgresql.settings("not_made")

    def schemas() -> str:
        return str(postgresql.sql("SELECT nspname FROM pg_namespace"))

    with monkeypatch.context() as context:
        context.setattr(schema, "MIN_VERSION", 99)
        with pytest.raises((ConfigError, InternalError)):
            asyncio.run(PostgresqlStore.open(settings))
    assert "not_made" not in schemas()

    async def main():
        await (await PostgresqlStore.open(settings)).close()

    asyncio.run(main())
    assert "not_made" in schemas()
