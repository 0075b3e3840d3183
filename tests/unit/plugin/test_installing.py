"""Several versions side by side; plugins that come, are replaced and go while a host runs."""

import asyncio
import logging
import shutil

import pytest
from tests.unit.plugin.conftest import SCRIPTED

from penstock.model.errors import ConfigError
from penstock.plugin.catalog.registry import PluginPath, Registry
from penstock.plugin.host import PluginHost

MANIFEST = """
name = "scripted"
version = "{version}"
command = ["{{python}}", "{script}"]
connector = [{{ name = "source", kind = "source" }}]
"""


@pytest.fixture
def installed(tmp_path):
    """The plugin path; `put` installs a version."""

    class Path:
        root = tmp_path / "plugins"

        def put(self, version: str, folder: str = "") -> None:
            place = self.root / (folder or version)
            place.mkdir(parents=True, exist_ok=True)
            text = MANIFEST.format(version=version, script=SCRIPTED)
            (place / "plugin.toml").write_text(text)

        def remove(self, folder: str) -> None:
            shutil.rmtree(self.root / folder)

        def path(self) -> PluginPath:
            return PluginPath((self.root,), builtin=False)

    path = Path()
    path.put("1.2.0")
    return path


def version(registry: Registry, requirement: str = "") -> str:
    return registry.find("source", requirement)[0].version


def code(call) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    assert caught.value.diagnostic.fix
    assert caught.value.diagnostic.config_path
    return caught.value.code


def test_the_newest_allowed_version_is_taken(installed):
    for one in ("1.10.0", "1.9.0", "2.0.0-rc1"):
        installed.put(one)
    registry = installed.path().load()
    assert version(registry) == "2.0.0-rc1"
    assert version(registry, "[1.2,2.0-alpha)") == "1.10.0"
    assert version(registry, "1.9") == "1.9.0"
    assert registry.find("scripted/source", "[1.2]")[0].version == "1.2.0"


def test_a_version_that_is_not_there_is_told_with_those_that_are(installed):
    installed.put("1.10.0")
    registry = installed.path().load()
    with pytest.raises(ConfigError, match=r"installed: 1\.2\.0, 1\.10\.0") as caught:
        registry.find("source", "[3,)")
    assert caught.value.code == "plugin.no_such_version"
    assert caught.value.diagnostic.suggestion == "1.10.0"


def test_what_is_no_version_is_refused(installed):
    registry = installed.path().load()
    assert code(lambda: registry.find("source", "[1,")) == "plugin.bad_version"


def test_one_version_installed_twice_is_told_and_the_first_counts(installed):
    installed.put("1.2", folder="again")
    registry = installed.path().load()
    assert [m.folder.name for m in registry.manifests] == ["1.2.0"]
    assert [p.code for p in registry.problems] == ["plugin.twice"]


def test_a_folder_that_is_not_there_is_a_problem_and_no_end(installed, tmp_path):
    registry = Registry.load([tmp_path / "nowhere", installed.root], builtin=False)
    assert [p.code for p in registry.problems] == ["plugin.no_folder"]
    assert version(registry) == "1.2.0"


def host_of(kit, installed, **more) -> PluginHost:
    return PluginHost(installed.path(), kit.runtime_dir, deadlines=kit.deadlines, **more)


def test_each_version_has_a_process_of_its_own(kit, run, installed):
    installed.put("2.0.0")

    async def scenario():
        host = host_of(kit, installed)
        newest, pinned = await host.acquire("source"), await host.acquire("source", "[1,2)")
        assert newest.pid != pinned.pid
        assert (await host.acquire("source", "2.0.0")).pid == newest.pid
        assert host.statistics()["scripted/source"] == {"starts": 2, "failures": 0}
        await host.close(0.5)

    run(scenario())


def test_what_was_installed_just_now_is_found_when_it_is_asked_for(kit, run, installed):
    async def scenario():
        host = host_of(kit, installed)
        installed.put("3.0.0")
        assert host.find("source")[0].version == "1.2.0"
        assert host.find("source", "[3,)")[0].version == "3.0.0"
        await host.close()

    run(scenario())


def test_a_replaced_plugin_runs_for_new_tasks_and_the_old_one_for_those_that_have_it(
    kit, run, installed, caplog
):
    async def scenario():
        host = host_of(kit, installed, idle_timeout_s=2)
        before = await host.acquire("source")
        before.connection.idle_timer.begin_use()  # as the stream of a task does
        (installed.root / "1.2.0" / "notes.txt").write_text("another build")
        assert host.reload()
        after = await host.acquire("source")
        assert before.pid != after.pid
        assert before.alive
        after.connection.idle_timer.begin_use()
        before.connection.idle_timer.end_use()
        async with asyncio.timeout(60):
            await before.exited
        assert after.alive
        await host.close(0.5)

    with caplog.at_level(logging.INFO, "penstock.plugin"):
        run(scenario())
    assert any(
        "was replaced; its running processes continue" in r.getMessage() for r in caplog.records
    )


def test_a_removed_plugin_goes_on_where_it_runs_and_is_refused_to_others(kit, run, installed):
    async def scenario():
        host = host_of(kit, installed)
        process = await host.acquire("source")
        process.connection.idle_timer.begin_use()
        installed.remove("1.2.0")
        assert host.reload()
        assert await process.validate(kit.target())
        with pytest.raises(ConfigError) as caught:
            await host.acquire("source")
        assert caught.value.code == "plugin.not_installed"
        await host.close(0.5)

    run(scenario())


def test_the_path_is_looked_at_again_at_an_interval(kit, run, installed, caplog):
    async def scenario():
        host = host_of(kit, installed)
        host.start_reloading(0.05)
        installed.put("4.0.0")
        await kit.until(lambda: len(host.registry.manifests) == 2)
        (installed.root / "4.0.0" / "plugin.toml").write_text("broken")
        await kit.until(lambda: len(host.registry.problems) == 1)
        await asyncio.sleep(0.3)
        await host.close()

    with caplog.at_level(logging.WARNING, "penstock.plugin"):
        run(scenario())
    assert sum("plugin left out" in r.getMessage() for r in caplog.records) == 1


def test_a_look_that_finds_nothing_new_changes_nothing(kit, run, installed):
    async def scenario():
        host = host_of(kit, installed)
        process = await host.acquire("source")
        assert not host.reload()
        assert (await host.acquire("source")).pid == process.pid
        await host.close(0.5)

    run(scenario())
