"""`. deploy/local/setup.sh`: a person's shell gets the environment, and stays as it was."""

import os
import shutil
import subprocess

import pytest

from support.checkout import ROOT

JAVA = """#!/bin/sh
echo 'openjdk version "17.0.1" 2021-10-19' >&2
"""
PYTHON = """#!/bin/sh
echo "python $*" >> "$PENSTOCK_VENV/ran"
[ "$3" = config ] && echo "$OF_PIP"
seq 20000  # more than a pipe holds: whoever stops reading at the line that matters breaks it
"""
UV = """#!/bin/sh
echo "uv $*" >> "$PENSTOCK_VENV/ran"
exit "${UV_ENDS:-0}"
"""


@pytest.fixture
def machine(tmp_path):
    """A checkout, with a Java and a virtual environment that only note what they are asked for."""
    local = tmp_path / "deploy" / "local"
    local.mkdir(parents=True)
    shutil.copy(ROOT / "deploy" / "local" / "setup.sh", local)
    for project in (".", "connectors/python"):
        (tmp_path / project).mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / project / "pyproject.toml", tmp_path / project)
    for file, text in (
        ("jdk/bin/java", JAVA), (".venv/bin/python", PYTHON), (".venv/bin/uv", UV)
    ):  # fmt: skip
        program = tmp_path / file
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    return tmp_path


def shell(machine, script, **more):
    """Run what a person types into a shell, where `set -e` is not set."""
    system = {name: os.environ[name] for name in ("PATH", "HOME")}
    variables = {"JAVA_HOME": str(machine / "jdk"), "PENSTOCK_VENV": str(machine / ".venv")}
    return subprocess.run(
        ["bash", "-c", script],
        cwd=machine, env=system | variables | more,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_shell_gets_the_environment(machine):
    done = shell(machine, 'unset JAVA_HOME PENSTOCK_VENV; . deploy/local/setup.sh; env; echo "$-"')
    assert done.returncode == 0, done.stderr
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert found["PENSTOCK_VENV"] == str(machine / ".venv")
    assert found["PATH"].startswith(f"{machine}/.venv/bin:")
    assert found["JAVA_HOME"]


def test_the_shell_keeps_its_options_and_lives_on(machine):
    options = "set +o; shopt; trap -p"
    script = f". deploy/local/setup.sh; {options}; grep -q x /dev/null; echo $NOTHING alive"
    done = shell(machine, script)
    assert done.stdout == shell(machine, options).stdout + "alive\n"


def test_the_shell_outlives_what_goes_wrong(machine):
    done = shell(machine, ". deploy/local/setup.sh; echo $?", PENSTOCK_VENV="/dev/null/venv")
    assert done.stdout == "1\n", done.stderr


def test_a_script_ends_with_what_goes_wrong(machine):
    script = "set -e; . deploy/local/setup.sh; echo still here"
    done = shell(machine, script, PENSTOCK_VENV="/dev/null/venv")
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize("extra", ["quickstart", "dev"])
def test_it_installs_what_it_is_told_and_once(machine, extra):
    told = "" if extra == "quickstart" else extra  # what nobody asks for is not installed
    installs = f"-e {machine}/connectors/python -e {machine}[{extra}]"
    for _ in range(2):
        done = shell(machine, f". deploy/local/setup.sh {told}", ETCD_BIN="sh", PG_BIN="sh")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    ran = (machine / ".venv" / "ran").read_text()
    assert ran.count(installs) == ran.count("uv pip install") == 1, ran


@pytest.mark.parametrize(
    ("variables", "by_uv"),
    [
        ({"OF_PIP": "global.index-url='https://packages.example'"}, 0),
        ({"OF_PIP": ":env:.no-index='1'"}, 0),
        ({"UV_ENDS": "1"}, 1),
    ],
)
def test_pip_installs_what_uv_cannot(machine, variables, by_uv):
    """uv does not read the configuration of pip, and may reach no index where pip does."""
    done = shell(machine, ". deploy/local/setup.sh", **variables)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    ran = (machine / ".venv" / "ran").read_text()
    assert ran.count(f"-m pip install -q --disable-pip-version-check -e {machine}/connectors") == 1
    assert ran.count("uv pip install") == by_uv
