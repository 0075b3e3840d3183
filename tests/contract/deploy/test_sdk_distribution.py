"""`penstock-connector`: the SDK without the product, and no file that the product has, too."""

import os
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from penstock.cli import plugin_new
from support.checkout import ROOT, product_files
from support.wheels import (
    PRODUCT,
    SDK,
    build_wheels,
    link_requirements,
    make_environment,
    names_in,
    read_project,
)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheels of the SDK and of the product."""
    return build_wheels(ROOT, tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def environment(wheels, tmp_path_factory):
    """An author's environment: the SDK, what it requires, and pytest."""
    folder = tmp_path_factory.mktemp("author")
    packages = make_environment(folder, wheels[:1])
    link_requirements([*read_project(SDK)["dependencies"], "pytest"], packages)
    return folder


def run(environment, *words, cwd):
    command = [environment / "bin" / "python", *words]
    clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        command, cwd=cwd, env=clean, capture_output=True, text=True, timeout=120, check=False
    )


def test_no_file_is_in_both_wheels_and_none_is_missing(wheels):
    sdk, product = map(names_in, wheels)
    assert sdk & product == set()
    packages = {file.parts[0] for file in map(Path, sdk)}
    assert packages == {"penstock", "penstock_connector", "penstock_converters", "penstock_values"}
    roots = (ROOT / "services", *(ROOT / "connectors").iterdir())
    for file in product_files():
        (root,) = (root for root in roots if root in file.parents)
        assert str(file.relative_to(root)) in sdk | product


def test_the_product_requires_the_sdk_of_its_version():
    sdk, product = read_project(SDK), read_project(PRODUCT)
    assert sdk["version"] == product["version"]
    assert f"penstock-connector=={sdk['version']}" in product["dependencies"]
    wanted = {Requirement(one).name: one for one in product["dependencies"]}
    for one in sdk["dependencies"]:
        assert wanted[Requirement(one).name] == one


def test_the_environment_has_no_product(environment, tmp_path):
    absent = ("penstock.model", "penstock_kit", "pyspark", "numpy", "fastapi")
    probe = f"import importlib.util as u; print([n for n in {absent} if u.find_spec(n)])"
    done = run(environment, "-c", probe, cwd=tmp_path)
    assert done.stdout == "[]\n", done.stderr


def test_the_tests_of_a_new_project_pass_with_the_sdk_alone(environment, tmp_path):
    project = tmp_path / "acme-orders"
    plugin_new.create_project("python", "acme-orders", project)
    assert read_project(project)["dependencies"] == ["penstock-connector"]
    done = run(environment, "-m", "pytest", "-q", cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_a_kit_for_tables_needs_nothing_more(environment, tmp_path):
    done = run(environment, ROOT / SDK / "examples/tables.py", cwd=tmp_path)
    assert "is a Penstock plugin with tables (sink)" in done.stderr
