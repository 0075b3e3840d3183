"""How errors reach a person."""

import os
import subprocess
import sys

import pytest

from penstock.cli import cluster
from penstock.cli.__main__ import main
from penstock.cli.errors import EXIT_BROKEN_PIPE, print_error
from penstock.model.config_def import combine_errors
from penstock.model.errors import CONNECTOR_DEFECT, ConfigError, InternalError, RetriableError


def test_all_that_is_wrong_is_printed(capsys):
    names = ("one", "two", "three")
    error = combine_errors(
        ConfigError("code.x", f"no {n}", fix=f"Drop {n}.", config_path=n) for n in names
    )
    print_error(error)
    printed = capsys.readouterr().err.splitlines()
    for name in names:
        at = printed.index(f"error: [code.x] no {name}")
        assert printed[at + 1 : at + 3] == [f"  at:  {name}", f"  fix: Drop {name}."]
    assert len(printed) == 9


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (
            FileNotFoundError(2, "No such file or directory", "/x/y"),
            2,
            "error: [io.failed] /x/y: No",
        ),
        (KeyError("k"), 1, "error: [internal.unexpected] KeyError: 'k'"),
        (RetriableError("a.b", "no"), 1, "error: [a.b] no"),
        (ConfigError("a.b", "no"), 2, "error: [a.b] no"),
    ],
)
def test_no_error_reaches_a_person_as_a_trace(capsys, monkeypatch, raised, code, said):
    def fail(*_):
        raise raised

    monkeypatch.setattr(cluster, "role_commands", fail)
    monkeypatch.delenv("PENSTOCK_LOG_LEVEL", raising=False)
    assert main(["cluster", "grants"]) == code
    err = capsys.readouterr().err
    assert err.startswith(said)
    assert "Traceback" not in err


def test_the_trace_of_a_defect_is_shown_to_who_asks(capsys, monkeypatch):
    monkeypatch.setattr(cluster, "role_commands", lambda _: 1 / 0)
    monkeypatch.setenv("PENSTOCK_LOG_LEVEL", "DEBUG")
    assert main(["cluster", "grants"]) == 1
    assert "Traceback" in capsys.readouterr().err


PRINTS = """
import sys
from penstock.cli.__main__ import main
sys.exit(main(["cluster", "grants"]))
"""


def test_nobody_reads_on():
    done = subprocess.run(
        [sys.executable, "-c", PRINTS],
        stdout=closed(),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (EXIT_BROKEN_PIPE, "")


def closed():
    """Return the end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def test_the_stack_trace_of_a_connectors_defect_is_printed_below_it(capsys):
    trace = (
        'Traceback (most recent call last):\n  File "a.py", line 3, in open\nNameError: \x1b[2Jx'
    )
    print_error(InternalError(CONNECTOR_DEFECT, "A.open: NameError", detail=trace, fix="Mend it."))
    assert capsys.readouterr().err.splitlines() == [
        "error: [connector.defect] A.open: NameError",
        "  fix: Mend it.",
        "  trace:",
        "    Traceback (most recent call last):",
        '      File "a.py", line 3, in open',
        "    NameError: \\x1b[2Jx",
    ]
    print_error(InternalError("a.b", "no", detail=trace))
    assert capsys.readouterr().err.splitlines() == ["error: [a.b] no"]
