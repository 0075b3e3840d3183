"""Manifests are read strictly, and a name leads to a command or to an error that helps."""

import sys
import zipfile
from pathlib import Path

import pytest

from penstock.model.errors import ConfigError
from penstock.plugin.catalog.manifest import Kind, Manifest, parse_manifest
from penstock.plugin.catalog.registry import Registry

GOOD = """
name = "files"
version = "1.2.0"
command = ["{python}", "{folder}/main.py"]

[[connector]]
name = "file-source"
kind = "source"
aliases = ["org.apache.kafka.connect.file.FileStreamSourceConnector"]
title = "Lines of files"

[[connector]]
name = "file-sink"
kind = "sink"
"""


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "plugin.toml").write_text(text)
    return folder


def test_a_manifest_is_read_whole(tmp_path):
    manifest = parse_manifest(GOOD, tmp_path)
    assert manifest.name == "files"
    assert [entry.kind for entry in manifest.connectors] == [Kind.SOURCE, Kind.SINK]
    assert manifest.connectors[0].aliases == (
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
    )


def test_the_command_is_absolute_and_its_placeholders_are_filled(tmp_path):
    assert parse_manifest(GOOD, tmp_path).resolve_command() == (
        sys.executable,
        f"{tmp_path}/main.py",
    )


def test_a_program_beside_the_manifest_may_be_named_relative_to_it(tmp_path):
    program = tmp_path / "bin" / "run"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    manifest = Manifest("x", "1", ("./bin/run", "--fast"), tmp_path, ())
    assert Path(manifest.resolve_command()[0]).samefile(program)


@pytest.mark.parametrize("word", ["no-such-program", "/bin/nothing", "./plugin.toml"])
def test_a_command_that_cannot_be_run_is_refused_before_it_is_tried(tmp_path, word):
    (tmp_path / "plugin.toml").write_text("not executable")
    with pytest.raises(ConfigError) as caught:
        Manifest("x", "1", (word,), tmp_path, ()).resolve_command()
    assert caught.value.code == "plugin.command_not_found"


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (GOOD.replace("name = ", "nmae = ", 1), "did you mean 'name'"),
        (GOOD.replace("aliases", "alias"), "connector.alias"),
        (GOOD.replace('"source"', '"spring"'), "source, sink"),
        (GOOD.replace('command = ["{python}", "{folder}/main.py"]', "command = []"), "command"),
        (GOOD.replace('version = "1.2.0"', "version = 1"), "version"),
        (GOOD.partition("[[")[0], "connector"),
        ("name = ", "plugin.toml"),
        (GOOD.replace("aliases", "max_tasks = true\naliases", 1), "max_tasks must be a number"),
        (
            GOOD.replace('"source"', '"transform"').replace("aliases", "max_tasks = 2\naliases", 1),
            "is only for sources and sinks",
        ),
        (GOOD + "\n[env]\nLD_PRELOAD='x'\n", "env"),
    ],
)
def test_a_broken_manifest_is_refused_with_the_place(tmp_path, broken, says):
    with pytest.raises(ConfigError) as caught:
        parse_manifest(broken, tmp_path)
    assert caught.value.code == "plugin.bad_manifest"
    assert says in str(caught.value)


def test_a_folder_on_the_path_is_a_plugin_or_has_plugins(tmp_path):
    one = write(tmp_path / "one", GOOD)
    write(tmp_path / "many" / "a", GOOD.replace("file", "a"))
    write(tmp_path / "many" / "b", GOOD.replace("file", "b"))
    (tmp_path / "many" / "empty").mkdir()
    registry = Registry.load([one, tmp_path / "many", tmp_path / "missing"], builtin=False)
    assert [m.name for m in registry.manifests] == ["files", "as", "bs"]


def test_connectors_are_found_by_name_alias_and_plugin(tmp_path):
    registry = Registry.load([write(tmp_path / "p", GOOD)], builtin=False)
    names = [
        "file-source",
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "files/file-source",
    ]
    assert {registry.find(name)[1].name for name in names} == {"file-source"}


def test_a_missing_plugin_is_told_with_what_there_is_and_what_is_near(tmp_path):
    registry = Registry.load([write(tmp_path / "p", GOOD)], builtin=False)
    with pytest.raises(ConfigError) as caught:
        registry.find("file-sorce")
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "plugin.not_installed"
    assert "file-sink, file-source" in diagnostic.message
    assert diagnostic.suggestion == "file-source"


def test_one_broken_manifest_hides_no_other_and_is_named_when_something_is_missing(tmp_path):
    write(tmp_path / "p" / "bad", "name = 3")
    write(tmp_path / "p" / "good", GOOD)
    registry = Registry.load([tmp_path / "p"], builtin=False)
    assert registry.find("file-sink")[0].name == "files"
    with pytest.raises(ConfigError, match=r"bad/plugin\.toml"):
        registry.find("other")


def test_a_name_that_two_plugins_serve_must_say_which(tmp_path):
    write(tmp_path / "p" / "a", GOOD)
    write(tmp_path / "p" / "b", GOOD.replace('"files"', '"others"'))
    registry = Registry.load([tmp_path / "p"], builtin=False)
    with pytest.raises(ConfigError) as caught:
        registry.find("file-sink")
    assert caught.value.code == "plugin.ambiguous"
    assert registry.find("others/file-sink")[0].name == "others"


def test_the_shipped_plugin_is_found_without_being_imported(tmp_path, monkeypatch):
    write(tmp_path / "penstock_builtin", GOOD)
    (tmp_path / "penstock_builtin" / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "penstock_builtin", raising=False)
    assert "file-sink" in {e.name for m in Registry.load().manifests for e in m.connectors}
    assert "penstock_builtin" not in sys.modules


def test_no_shipped_plugin_is_no_error(tmp_path, monkeypatch):
    shipped = (
        "penstock_builtin", "penstock_databases", "penstock_kafka", "penstock_rocketmq",
        "penstock_amqp", "penstock_analytics", "penstock_messaging", "penstock_metrics",
        "penstock_net", "penstock_search",
    )  # fmt: skip
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for package in shipped:
            opened.writestr(f"{package}/__init__.py", "")
    monkeypatch.syspath_prepend(str(archive))
    for package in shipped:
        monkeypatch.delitem(sys.modules, package, raising=False)
    assert Registry.load().manifests == ()
