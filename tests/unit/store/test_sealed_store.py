"""Values that are sealed: nobody without a key reads them, and none takes another one's place."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from penstock.model.errors import ConfigError
from penstock.store.port import Check
from penstock.store.sealed_store import MARK, MAX_KEYS, Seal, SealedStore, read_seal_file
from penstock.store.sqlite import SqliteStore

OLD, NEW = bytes(32), bytes(range(32))
PASSWORD = b'{"connection.password": "hunter2"}'


def file_of(folder: Path, *keys: bytes, mode: int = 0o600) -> Path:
    path = folder / "keys"
    path.write_text("".join(f"{base64.b64encode(key).decode()}\n" for key in keys))
    path.chmod(mode)
    return path


def test_the_store_below_has_nothing_to_read(tmp_path):
    async def scenario():
        inner = await SqliteStore.open(tmp_path / "state.db")
        store = SealedStore(inner, Seal([OLD]))
        await store.write([Check("connectors/a", 0)], [("connectors/a", PASSWORD)])
        kept = (await inner.get("connectors/a"))["connectors/a"].value
        read = (await store.get("connectors/a"))["connectors/a"].value
        page = await store.range("connectors/")
        await store.close()
        return kept, read, page.entries[0].value

    kept, read, listed = asyncio.run(scenario())
    assert kept.startswith(MARK)
    assert b"hunter2" not in kept
    assert read == listed == PASSWORD
    files = [path.read_bytes() for path in tmp_path.iterdir()]
    assert not any(b"hunter2" in content for content in files)


def test_where_only_a_part_is_sealed_the_rest_stays_plain_and_all_is_read(tmp_path):
    async def scenario():
        inner = await SqliteStore.open(tmp_path / "state.db")
        store = SealedStore(inner, Seal([OLD]), "plan/")
        await SealedStore(inner, Seal([OLD])).write([], [("drain/old", PASSWORD)])
        await store.write([], [("plan/g/index", PASSWORD), ("drain/w", b""), ("plan/h", None)])
        kept = {entry.key: entry.value for entry in (await inner.range("")).entries}
        read = {entry.key: entry.value for entry in (await store.range("")).entries}
        await store.close()
        return kept, read

    kept, read = asyncio.run(scenario())
    assert {key for key, value in kept.items() if value.startswith(MARK)} == {
        "drain/old",
        "plan/g/index",
    }
    assert read == {"drain/old": PASSWORD, "drain/w": b"", "plan/g/index": PASSWORD}


def test_a_value_is_sealed_otherwise_each_time_and_opens_at_its_place_alone():
    seal = Seal([OLD])
    sealed = seal.encrypt("a", PASSWORD)
    assert sealed != seal.encrypt("a", PASSWORD)
    assert seal.decrypt("a", sealed) == PASSWORD
    with pytest.raises(ConfigError, match=r"store\.sealed"):
        seal.decrypt("b", sealed)
    with pytest.raises(ConfigError, match=r"store\.sealed"):
        seal.decrypt("a", sealed[:-1] + bytes([sealed[-1] ^ 1]))


def test_a_new_key_seals_and_the_old_one_still_opens():
    sealed = Seal([OLD]).encrypt("a", PASSWORD)
    both = Seal([NEW, OLD])
    assert both.decrypt("a", sealed) == PASSWORD
    assert Seal([NEW]).decrypt("a", both.encrypt("a", PASSWORD)) == PASSWORD


@pytest.mark.parametrize("keys", [(), (NEW,)])
def test_a_service_without_the_key_says_so(keys):
    with pytest.raises(ConfigError, match=r"store\.sealed"):
        Seal(keys).decrypt("a", Seal([OLD]).encrypt("a", PASSWORD))


def test_what_was_stored_before_there_was_a_key_is_read():
    assert Seal([OLD]).decrypt("a", PASSWORD) == PASSWORD
    assert Seal().encrypt("a", PASSWORD) == PASSWORD


def test_keys_are_read_from_a_file_that_not_everybody_reads(tmp_path):
    sealed = Seal([OLD]).encrypt("a", PASSWORD)
    assert read_seal_file(file_of(tmp_path, NEW, OLD)).decrypt("a", sealed) == PASSWORD
    with pytest.raises(ConfigError, match="every user of this machine"):
        read_seal_file(file_of(tmp_path, OLD, mode=0o644))


@pytest.mark.parametrize("keys", [(), (b"short",), (OLD,) * (MAX_KEYS + 1)])
def test_what_are_no_keys_is_refused(tmp_path, keys):
    with pytest.raises(ConfigError, match=r"store\.seal_keys"):
        read_seal_file(file_of(tmp_path, *keys))


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"store\.seal_keys"):
        read_seal_file(tmp_path / "nothing")
    (tmp_path / "keys").write_text("!!!\n")
    (tmp_path / "keys").chmod(0o600)
    with pytest.raises(ConfigError, match=r"store\.seal_keys"):
        read_seal_file(tmp_path / "keys")
