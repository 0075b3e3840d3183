"""The image of the chart: it is built from what `.dockerignore` lets in, and has no more than that.

No container engine is needed: the Dockerfile is read, and the wheels that it installs are built.
"""

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from penstock.cli import plugin_new
from support.checkout import ROOT
from support.wheels import PRODUCT, SDK, build_wheels, make_environment, names_in, read_project

DOCKERFILE = (ROOT / "deploy" / "kubernetes" / "Dockerfile").read_text(encoding="utf-8")
PROJECT = read_project(PRODUCT)
NOT_IN_THE_IMAGE = {"dev", "quickstart"}
"""Extras of people at a machine, and of no service."""


def copied(dockerfile):
    """What the last stage copies into layers of the image."""
    last = re.split(r"^FROM ", dockerfile, flags=re.MULTILINE)[-1]
    return re.findall(r"^(?:COPY|ADD) (.*)$", last, re.MULTILINE)


def test_no_layer_of_the_image_is_the_checkout_or_a_wheel():
    assert copied(DOCKERFILE) == []


def test_a_layer_with_the_checkout_goes_red():
    assert copied(DOCKERFILE.replace("USER 10001", "COPY . /src")) == [". /src"]


class Context:
    """What a container engine sends of a checkout: as `.dockerignore` says, the last line wins."""

    def __init__(self, text):
        lines = [line.strip() for line in text.splitlines() if line.strip()[:1] not in {"", "#"}]
        self._rules = [(line[0] == "!", self._pattern(line.lstrip("!"))) for line in lines]

    def has(self, path):
        let_in = True
        for lets_in, pattern in self._rules:
            if any(pattern.fullmatch(str(one)) for one in (path, *path.parents)):
                let_in = lets_in
        return let_in

    @staticmethod
    def _pattern(line):
        words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
        parts = re.split(r"(\*\*/|\*\*|\*|\?)", line)
        return re.compile("".join(words.get(part, re.escape(part)) for part in parts))


def files_of(root):
    """Files and links of a checkout, and no folder that a link leads to."""
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [n for n in folders if n not in {".git", ".venv", "node_modules", *links}]
        yield from (str((here / name).relative_to(root)) for name in (*names, *links))


def copy_context(target):
    """Copy what a container engine is given, links as links."""
    context = Context((ROOT / ".dockerignore").read_text(encoding="utf-8"))
    for name in filter(lambda name: context.has(Path(name)), files_of(ROOT)):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name, follow_symlinks=False)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheels of the image."""
    source = tmp_path_factory.mktemp("context")
    copy_context(source)
    return build_wheels(source, tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def installed(wheels, tmp_path_factory):
    """An environment with the wheels, whose dependencies are those of this environment."""
    venv = tmp_path_factory.mktemp("venv")
    packages = make_environment(venv, wheels)
    # a path in a .pth brings the packages, and not their own .pth: the editable install stays out
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return venv / "bin"


def test_the_wheels_of_the_image_have_all_that_those_of_the_checkout_have(wheels, tmp_path):
    checkout = build_wheels(ROOT, tmp_path)
    assert list(map(names_in, wheels)) == list(map(names_in, checkout))


def test_a_build_is_given_what_the_wheel_is_made_of_and_nothing_else():
    context = Context((ROOT / ".dockerignore").read_text(encoding="utf-8"))
    seen = {Path(name).parts[0] for name in files_of(ROOT) if context.has(Path(name))}
    assert seen == {"README.md", "connectors", "proto", "pyproject.toml", "services"}
    for outside in (
        "tests/run.sh",
        "deploy/README.md",
        "connectors/go/tests/conftest.py",
        ".git/x",
    ):
        assert not context.has(Path(outside)), outside
    for left_over in (
        "services/penstock/__pycache__/a.pyc",
        "connectors/node/template/node_modules/x",
    ):
        assert not context.has(Path(left_over)), left_over


def test_the_installed_command_tells_its_version(installed):
    done = run(installed, "penstock", "--version")
    assert PROJECT["version"] in done.stdout
    place = run(installed, "python", "-c", "import penstock; print(penstock.__file__)").stdout
    assert place.startswith(str(installed.parent))


@pytest.mark.parametrize("language", plugin_new.LANGUAGES)
def test_the_installed_command_makes_a_project(installed, language, tmp_path):
    run(installed, "penstock", "plugin", "new", "--language", language, "orders", cwd=tmp_path)
    plugin_new.create_project(language, "orders", tmp_path / "expected")
    made, expected = contents(tmp_path / "orders"), contents(tmp_path / "expected")
    assert made.keys() == expected.keys()
    assert made == expected


def test_the_installed_kit_has_its_cases(installed):
    cases = "from penstock_kit.conformance.cases import load_spec; print(len(load_spec().cases))"
    assert int(run(installed, "python", "-c", cases).stdout) > 50


def run(installed, program, *words, cwd=None):
    done = subprocess.run(
        [installed / program, *words],
        cwd=cwd or installed, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def contents(folder):
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_the_image_has_every_extra_that_a_service_or_a_connector_needs():
    wanted = set(PROJECT["optional-dependencies"]) - NOT_IN_THE_IMAGE
    written = re.findall(r"\[([a-z0-9,]+)\]\"", DOCKERFILE)
    assert f" /src/{SDK} " in DOCKERFILE
    assert {frozenset(extras.split(",")) for extras in written} == {frozenset(wanted)}
    assert f"penstock[{written[0]}]" in (ROOT / "deploy" / "README.md").read_text("utf-8")
