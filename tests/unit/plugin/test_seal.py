"""A sealed plugin is started only while every file of it is what it was."""

import subprocess
from dataclasses import replace

import pytest

from penstock.model.errors import ConfigError, PenstockError
from penstock.plugin.catalog import seal
from penstock.plugin.catalog.registry import PluginPath, Registry

MANIFEST = """
name = "sealed"
version = "1.0"
command = ["{python}", "{folder}/main.py"]
connector = [{ name = "one", kind = "source" }]
"""


@pytest.fixture
def folder(tmp_path):
    """A plugin's folder with a module in a folder."""
    made = tmp_path / "sealed"
    (made / "inner").mkdir(parents=True)
    (made / "plugin.toml").write_text(MANIFEST)
    (made / "main.py").write_text("import inner.part\n")
    (made / "inner" / "part.py").write_text("print('hello')\n")
    return made


def broken(folder):
    with pytest.raises(ConfigError) as caught:
        seal.check_seal(folder)
    assert caught.value.code == "plugin.seal_broken"
    assert caught.value.diagnostic.fix
    return str(caught.value)


def test_a_folder_without_a_seal_passes(folder):
    seal.check_seal(folder)
    assert not seal.is_sealed(folder)


def test_a_seal_covers_every_file_and_any_tool_can_check_it(folder):
    assert seal.write_seal(folder) == 3
    assert seal.is_sealed(folder)
    seal.check_seal(folder)
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", seal.SEAL_FILE],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    assert checked.returncode == 0


@pytest.mark.parametrize("name", ["plugin.toml", "main.py", "inner/part.py"])
def test_a_changed_file_breaks_it(folder, name):
    seal.write_seal(folder)
    (folder / name).write_text((folder / name).read_text() + "# one more line\n")
    assert f"{name} was changed" in broken(folder)


def test_a_seal_of_names_alone_would_let_a_swapped_file_pass(folder, monkeypatch):
    """The twin of the test above: a digest that does not look into the file."""
    monkeypatch.setattr(seal, "_digest", lambda _: "0" * 64)
    seal.write_seal(folder)
    (folder / "main.py").write_text("import os\n")
    seal.check_seal(folder)


def test_a_file_that_is_gone_or_new_breaks_it(folder):
    seal.write_seal(folder)
    (folder / "inner" / "new.py").write_text("")
    assert "inner/new.py was added" in broken(folder)
    (folder / "inner" / "new.py").unlink()
    (folder / "inner" / "part.py").unlink()
    assert "inner/part.py was removed" in broken(folder)


def test_a_link_out_of_the_folder_breaks_it_and_cannot_be_sealed(folder, tmp_path):
    seal.write_seal(folder)
    (tmp_path / "outside.py").write_text("import inner.part\n")
    (folder / "main.py").unlink()
    (folder / "main.py").symlink_to(tmp_path / "outside.py")
    assert "leads out of the folder" in broken(folder)
    with pytest.raises(ConfigError) as caught:
        seal.write_seal(folder)
    assert caught.value.code == "plugin.cannot_seal"


@pytest.mark.parametrize("text", ["nonsense\n", "x" * 70 + "\n", "\x1b[2J\n"])
def test_a_seal_that_cannot_be_read_is_a_broken_one(folder, text):
    seal.write_seal(folder)
    (folder / seal.SEAL_FILE).write_text(text)
    assert "plugin.sha256: expected" in broken(folder)


def test_what_python_leaves_behind_does_not_break_it(folder):
    seal.write_seal(folder)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "main.cpython-311.pyc").write_bytes(b"\0")
    seal.check_seal(folder)


def test_sealed_again_after_a_change_it_passes(folder):
    seal.write_seal(folder)
    (folder / "main.py").write_text("")
    seal.write_seal(folder)
    seal.check_seal(folder)


def test_a_worker_may_take_only_what_is_sealed(folder):
    path = PluginPath((folder,), only_sealed=True, builtin=False)
    assert [p.code for p in path.load().problems] == ["plugin.not_sealed"]
    seal.write_seal(folder)
    assert [m.name for m in path.load().manifests] == ["sealed"]


def test_a_plugin_that_was_changed_is_not_started(kit, run, folder):
    seal.write_seal(folder)
    (folder / "main.py").write_text("raise SystemExit(99)\n")
    (manifest,) = Registry.load([folder], builtin=False).manifests
    with pytest.raises(PenstockError) as caught:
        run(kit.start_of(manifest))
    assert caught.value.code == "plugin.seal_broken"


def test_python_neither_reads_nor_writes_its_cache_beside_a_sealed_plugin(kit, run, folder):
    """A swapped cache would be run in the place of a file that is unchanged."""
    (folder / "main.py").write_text("import sys\nimport inner.part\nsys.exit(sys.pycache_prefix)\n")
    seal.write_seal(folder)
    (manifest,) = Registry.load([folder], builtin=False).manifests
    with pytest.raises(PenstockError) as caught:
        run(kit.start_of(replace(manifest)))
    assert str(kit.runtime_dir) in str(caught.value)
    assert not list(folder.rglob("__pycache__"))
