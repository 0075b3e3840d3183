"""The template and the README of the Go SDK: everything that is shown builds and runs."""

import re
import shutil

import pytest

from penstock.cli import plugin_new
from penstock_connector import Source
from penstock_connector.testing import sink_task, source_task
from support.checkout import ROOT
from support.conformance import run_kit
from support.foreign import BUILT, ForeignBed, go_build, run_tool

MODULE = ROOT / "connectors/go"
README = (MODULE / "README.md").read_text()
SNIPPETS = re.findall(r"```go\n(.*?)```", README, re.DOTALL)

BEFORE = """package main

import (
	"context"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"penstock/go/connector"
)

type config struct {
	Path string `required:"true" doc:"File to append to."`
}
"""
AFTER = "func main() { connector.Serve(connector.Plugin{}, sink) }\n"


class Mine(Source):
    name = "my-plugin"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A new project, named my-plugin."""
    folder = tmp_path_factory.mktemp("made") / "my-plugin"
    plugin_new.create_project("go", "my-plugin", folder)
    return folder


@pytest.mark.timeout(BUILT)
def test_the_template_makes_a_project_that_builds_tests_runs_and_conforms(made):
    run_tool("go", "vet", "./...", cwd=made)
    assert "ok  \tmy-plugin" in run_tool("go", "test", "-vet=off", "./...", cwd=made)
    run_tool("go", "build", "-o", "my-plugin", ".", cwd=made)
    assert 'name = "my-plugin"' in (made / "plugin.toml").read_text()
    with (
        ForeignBed([made / "my-plugin"]) as bed,
        source_task(Mine, {"limit": "2500"}, bed=bed) as task,
    ):
        assert [row["number"] for row in task.all_rows()] == list(range(2500))
    told = run_kit(str(made))
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]


def test_the_readme_shows_the_example_source_as_it_is():
    assert (MODULE / "examples/numbers/main.go").read_text() in SNIPPETS


@pytest.mark.timeout(BUILT)
def test_the_sink_of_the_readme_builds_and_writes(made, tmp_path):
    (sink,) = [code for code in SNIPPETS if "SinkSpec" in code]
    sink = f"{BEFORE}\n{sink}\n{AFTER}"
    project = shutil.copytree(made, tmp_path / "sink", ignore=shutil.ignore_patterns("*.go"))
    shutil.copytree(made / "sdk", project / "sdk", dirs_exist_ok=True)
    (project / "main.go").write_text(sink)
    run_tool("go", "vet", ".", cwd=project)
    programs = go_build(tmp_path / "bin", project, ".")
    (program,) = programs.iterdir()

    class Printed(Source):
        name = "go-log"

    with (
        ForeignBed([program]) as bed,
        sink_task(Printed, {"path": str(tmp_path / "out")}, bed=bed) as task,
    ):
        assert task.write([{"id": 1}, {"id": 2}], dataset="orders").txn_id == 1
        task.close()
    assert (tmp_path / "out").read_text() == '{"id":1}\n{"id":2}\n'
