"""The stage of Go: its own tests, its vet, its format; and that neither can pass by accident."""

from pathlib import Path

import pytest

from support.checkout import ROOT
from support.foreign import BUILT, run_tool

MODULE = ROOT / "connectors/go"
BUILDING = pytest.mark.timeout(BUILT)


@BUILDING
def test_go_test_passes():
    """`go test` of the SDK; vet runs beside it, with all its checks, in the next test."""
    printed = run_tool("go", "test", "-vet=off", "-count=1", "./...", cwd=MODULE)
    assert "ok  \tpenstock/go/connector" in printed


@BUILDING
def test_go_vet_finds_nothing():
    run_tool("go", "vet", "./...", cwd=MODULE)


def unformatted(folder: Path) -> list[str]:
    """Return the files below a folder that gofmt would change."""
    gofmt = Path(run_tool("go", "env", "GOROOT", cwd=MODULE).strip()) / "bin/gofmt"
    return run_tool(gofmt, "-l", folder, cwd=MODULE).splitlines()


def test_gofmt_changes_nothing():
    assert unformatted(MODULE) == []


def test_gofmt_would_change_a_line_that_is_not_formatted(tmp_path):
    """The twin: one space too many goes red."""
    file = tmp_path / "a.go"
    file.write_text("package a\n\nvar  x = 1\n")
    assert unformatted(tmp_path) == [str(file)]


def test_the_module_is_whole_and_names_no_registry():
    run_tool("go", "list", "-mod=readonly", "-deps", "./...", cwd=MODULE)
    assert not any("proxy." in (MODULE / name).read_text() for name in ("go.mod", "go.sum"))
