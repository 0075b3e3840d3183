"""What a person sees while a command waits; a program sees nothing."""

from __future__ import annotations

import io
import sys

import pytest

from penstock.cli import progress
from penstock.cli.progress import ProgressLines, Totals, no_status_line, status_line
from penstock_kit.testing import wait_until


class Terminal(io.StringIO):
    """Standard error, with or without a person before it."""

    def __init__(self, *, person: bool) -> None:
        super().__init__()
        self._person = person

    def isatty(self) -> bool:
        return self._person


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(progress, "STATUS_DELAY_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")


def test_who_waits_is_told_for_what_and_no_longer(monkeypatch):
    seen = Terminal(person=True)
    monkeypatch.setattr(sys, "stderr", seen)
    with status_line("the [red]gateway[/] answers"), status_line("a part of it"):
        wait_until(lambda: "the [red]gateway[/] answers" in seen.getvalue(), 60, "a sign")
    assert "a part of it" not in seen.getvalue()
    with status_line("another"):
        wait_until(lambda: "another" in seen.getvalue(), 60, "the next sign")


def test_nothing_is_told_to_a_program_or_on_the_screen_of_another(monkeypatch):
    for person, around in ((False, status_line("outside")), (True, no_status_line())):
        seen = Terminal(person=person)
        monkeypatch.setattr(sys, "stderr", seen)
        with around, status_line("the gateway answers"):
            pass
        assert seen.getvalue() == ""


def test_what_fails_leaves_no_sign(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal(person=True))
    with pytest.raises(ValueError, match="no"), status_line("it"):
        raise ValueError("no")
    assert progress._stages == []


def test_where_there_is_no_terminal_a_line_tells_the_totals_every_ten_seconds(capsys):
    now = [100.0]
    lines = ProgressLines("copy", lambda: now[0])
    for seconds, rows in ((0, 0), (9, 5), (10, 1), (15, 3000), (20, 4001)):
        now[0] = 100.0 + seconds
        lines.update(Totals(rows, rows, bytes_read=rows, bytes_left=4001 - rows))
    lines.close()
    assert capsys.readouterr().err.splitlines() == [
        "copy: 1 row read, 1 written, 0 rows/s, 0%, 10 s",
        "copy: 4,001 rows read, 4,001 written, 400 rows/s, 100%, 20 s",
    ]


def test_a_source_that_does_not_know_its_end_has_no_percentage(capsys):
    now = [0.0]
    lines = ProgressLines("copy", lambda: now[0])
    now[0] = 10.0
    lines.update(Totals(2, 2, bytes_read=9, bytes_left=-1))
    assert capsys.readouterr().err == "copy: 2 rows read, 2 written, 0 rows/s, 10 s\n"
