"""Files are read under allowed folders, and nowhere else, however their names are written (X12)."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from penstock.model.errors import PenstockError
from penstock.secrets import local_providers
from penstock.secrets.local_providers import DirectoryProvider, FileProvider


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    folder = tmp_path / "allowed"
    folder.mkdir()
    (folder / "db.properties").write_text("user=me\npassword = caf\\u00e9 1\n", encoding="utf-8")
    (folder / "token").write_text("abc\n", encoding="utf-8")
    (tmp_path / "other").write_text("password=hidden\n", encoding="utf-8")
    return folder


def read(provider, path, *keys):
    return dict(asyncio.run(provider.read(str(path), keys)).values)


def test_a_file_of_properties_has_keys(allowed):
    provider = FileProvider([allowed])
    found = read(provider, allowed / "db.properties", "user", "password", "none")
    assert found == {"user": "me", "password": "café 1"}


def test_a_folder_has_a_file_for_each_key_without_its_line_end(allowed):
    assert read(DirectoryProvider([allowed]), allowed, "token") == {"token": "abc"}


def test_folders_may_be_links_as_those_of_kubernetes_are(allowed, tmp_path):
    (tmp_path / "link").symlink_to(allowed)
    (allowed / "..data").mkdir()
    (allowed / "..data" / "key").write_text("value")
    (allowed / "key").symlink_to(Path("..data/key"))
    assert read(DirectoryProvider([tmp_path / "link"]), tmp_path / "link", "key") == {
        "key": "value"
    }


@pytest.mark.parametrize(
    "path",
    [
        "../other",
        "db.properties/../../other",
        "link",
        "linked/other",
        "/etc/shadow",
        "/proc/self/environ",
        "",
        ".",
        "pipe",
    ],
)
def test_what_leads_elsewhere_is_refused_and_nothing_of_it_is_told(allowed, tmp_path, path):
    (allowed / "link").symlink_to(tmp_path / "other")
    (allowed / "linked").symlink_to(tmp_path)
    os.mkfifo(allowed / "pipe")
    with pytest.raises(PenstockError) as caught:
        read(FileProvider([allowed]), f"{allowed}/{path}" if path[:1] != "/" else path, "password")
    assert caught.value.code == "secrets.refused"
    assert "hidden" not in str(caught.value)


def test_a_link_that_is_swapped_after_the_look_at_its_name_is_refused(
    allowed, tmp_path, monkeypatch
):
    opened, file = os.open, allowed / "db.properties"

    def swapped(path, *rest, **more):
        if Path(path) == file and not file.is_symlink():
            file.unlink()
            file.symlink_to(tmp_path / "other")
        return opened(path, *rest, **more)

    monkeypatch.setattr(local_providers.os, "open", swapped)
    with pytest.raises(PenstockError, match=r"secrets\.refused"):
        read(FileProvider([allowed]), file, "password")


@pytest.mark.parametrize("path", ["../other", "db.properties/../../other", "link", "linked/other"])
def test_a_provider_that_checks_no_place_goes_red(allowed, tmp_path, monkeypatch, path):
    """The twin of the tests above: each of these is read then."""
    (allowed / "link").symlink_to(tmp_path / "other")
    (allowed / "linked").symlink_to(tmp_path)
    monkeypatch.setattr(
        local_providers._FileReader, "_require_within", staticmethod(lambda *_: None)
    )
    if "/../" in path:  # the file is no folder
        (allowed / "db.properties").unlink()
        (allowed / "db.properties").mkdir()
    assert read(FileProvider([allowed]), allowed / path, "password") == {"password": "hidden"}


@pytest.mark.parametrize("key", ["../other", "/etc/passwd", "..", ""])
def test_a_key_is_a_name_in_its_folder(allowed, key):
    with pytest.raises(PenstockError, match=r"secrets\.refused"):
        read(DirectoryProvider([allowed]), allowed, key)


def test_a_file_that_has_a_name_elsewhere_too_is_refused(allowed, tmp_path):
    (allowed / "linked").hardlink_to(tmp_path / "other")
    for provider, path, key in (
        (FileProvider([allowed]), allowed / "linked", "password"),
        (DirectoryProvider([allowed]), allowed, "linked"),
    ):
        with pytest.raises(PenstockError, match="hard links") as caught:
            read(provider, path, key)
        assert caught.value.code == "secrets.refused"
        assert "hidden" not in str(caught.value)


def test_a_file_that_is_not_there_is_told(allowed):
    with pytest.raises(PenstockError, match=r"secrets\.not_found"):
        read(FileProvider([allowed]), allowed / "none", "a")


@pytest.mark.parametrize(
    "data", [b"\xff\xfe", b"x" * (local_providers.MAX_FILE_BYTES + 1), b"a=\\uXYZ1"]
)
def test_what_is_no_such_file_is_told_without_its_text(allowed, data):
    (allowed / "bad").write_bytes(data)
    with pytest.raises(PenstockError) as caught:
        read(FileProvider([allowed]), allowed / "bad", "a")
    assert caught.value.code == "secrets.refused"
    assert "XYZ1" not in str(caught.value)


def test_a_file_system_that_hangs_is_told_with_its_stage(allowed, monkeypatch):
    monkeypatch.setattr(local_providers, "READ_TIMEOUT_S", 0.05)
    release = threading.Event()
    provider = FileProvider([allowed])
    monkeypatch.setattr(provider, "_read", lambda *_: release.wait() and {})

    async def main():
        try:
            with pytest.raises(PenstockError, match=r"secrets\.unreachable.*stage secrets\.read"):
                await provider.read(str(allowed / "db.properties"), ["a"])
        finally:
            release.set()

    asyncio.run(main())
