"""The SDK can be published under a path with a host, and fetched, as the README says."""

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from penstock.cli import plugin_new
from support.checkout import ROOT
from support.foreign import BUILT, run_tool

MODULE = "go.example.org/penstock"
VERSION = f"v0.1.{int.from_bytes(os.urandom(4))}"
"""A new one: Go keeps an index of the files of a version, which it takes for ever the same."""
SDK = ROOT / "connectors/go"
PUBLISH, FETCH = re.findall(
    r"```bash tested-by=connectors/go/tests/test_fetching\.py\n(.*?)```",
    (SDK / "README.md").read_text(),
    re.DOTALL,
)


def run_commands(commands, folder, proxy):
    """Run commands of the README, as `go` and `grep`, with a folder as the first Go proxy."""
    proxies, flags = run_tool("go", "env", "GOPROXY", "GOFLAGS", cwd=SDK).splitlines()
    environment = {
        **os.environ,
        "MODULE": MODULE,
        "GOPROXY": f"file://{proxy},{proxies}",
        "GONOSUMDB": MODULE,
        "GOFLAGS": f"{flags} -modcacherw".strip(),
    }
    command = ["bash", "-euo", "pipefail", "-c", commands]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=BUILT,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def publish(module, proxy):
    """Put a module into a folder that is a Go proxy."""
    versions = proxy / MODULE / "@v"
    versions.mkdir(parents=True)
    (versions / "list").write_text(f"{VERSION}\n")
    (versions / f"{VERSION}.info").write_text(f'{{"Version": "{VERSION}"}}')
    shutil.copy(module / "go.mod", versions / f"{VERSION}.mod")
    with zipfile.ZipFile(versions / f"{VERSION}.zip", "w") as archive:
        for file in sorted(path for path in module.rglob("*") if path.is_file()):
            archive.write(file, f"{MODULE}@{VERSION}/{file.relative_to(module)}")


@pytest.fixture
def clean_cache():
    """The module cache does not have the module before the test, nor after it."""
    folder = Path(run_tool("go", "env", "GOMODCACHE", cwd=SDK).strip())
    host = MODULE.partition("/")[0]

    def remove():
        for place in (folder / host, folder / "cache/download" / host):
            shutil.rmtree(place, ignore_errors=True)

    remove()
    yield
    remove()


@pytest.mark.usefixtures("clean_cache")
@pytest.mark.timeout(BUILT)
def test_a_project_fetches_the_sdk_from_a_path_with_a_host(tmp_path):
    checkout, proxy = tmp_path / "checkout", tmp_path / "proxy"
    checkout.mkdir()
    (checkout / "connectors").symlink_to(ROOT / "connectors")
    run_commands(PUBLISH, checkout, proxy)
    publish(checkout / "sdk", proxy)
    project = tmp_path / "my-plugin"
    plugin_new.create_project("go", "my-plugin", project)
    run_commands(f"{FETCH.replace('v0.1.0', VERSION)}\ngo test -vet=off ./...", project, proxy)
    assert f"{MODULE} {VERSION}" in (project / "go.mod").read_text()
    assert "penstock/go" not in (project / "main.go").read_text()
    assert not (project / "sdk").exists()
