"""Values that are sealed: nobody without a key reads them, and none takes another one's place."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from penstock.model.errors import ConfigError
from penstock.store import Check, SqliteStore
from penstock.store.sealed import MARK, MOST_KEYS, Seal, SealedStore, seal_of

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


def test_a_value_is_sealed_otherwise_each_time_and_opens_at_its_place_alone():
    seal = Seal([OLD])
    sealed = seal.close("a", PASSWORD)
    assert sealed != seal.close("a", PASSWORD)
    assert seal.open("a", sealed) == PASSWORD
    with pytest.raises(ConfigError, match=r"store\.sealed"):
        seal.open("b", sealed)
    with pytest.raises(ConfigError, match=r"store\.sealed"):
        seal.open("a", sealed[:-1] + bytes([sealed[-1] ^ 1]))


def test_a_new_key_seals_and_the_old_one_still_opens():
    sealed = Seal([OLD]).close("a", PASSWORD)
    both = Seal([NEW, OLD])
    assert both.open("a", sealed) == PASSWORD
    assert Seal([NEW]).open("a", both.close("a", PASSWORD)) == PASSWORD


@pytest.mark.parametrize("keys", [(), (NEW,)])
def test_a_service_without_the_key_says_so(keys):
    with pytest.raises(ConfigError, match=r"store\.sealed"):
        Seal(keys).open("a", Seal([OLD]).close("a", PASSWORD))


def test_what_was_stored_before_there_was_a_key_is_read():
    assert Seal([OLD]).open("a", PASSWORD) == PASSWORD
    assert Seal().close("a", PASSWORD) == PASSWORD


def test_keys_are_read_from_a_file_that_not_everybody_reads(tmp_path):
    sealed = Seal([OLD]).close("a", PASSWORD)
    assert seal_of(file_of(tmp_path, NEW, OLD)).open("a", sealed) == PASSWORD
    with pytest.raises(ConfigError, match="read by anybody"):
        seal_of(file_of(tmp_path, OLD, mode=0o644))


@pytest.mark.parametrize("keys", [(), (b"short",), (OLD,) * (MOST_KEYS + 1)])
def test_what_are_no_keys_is_refused(tmp_path, keys):
    with pytest.raises(ConfigError, match=r"store\.seal_keys"):
        seal_of(file_of(tmp_path, *keys))


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"store\.seal_keys"):
        seal_of(tmp_path / "nothing")
    (tmp_path / "keys").write_text("!!!\n")
    (tmp_path / "keys").chmod(0o600)
    with pytest.raises(ConfigError, match=r"store\.seal_keys"):
        seal_of(tmp_path / "keys")
