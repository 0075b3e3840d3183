"""What a person sees while a command waits; a program sees nothing."""

from __future__ import annotations

import io
import sys

import pytest

from penstock.cli import waiting as room
from penstock.cli.waiting import unseen, waiting
from penstock.testing import wait_until


class Terminal(io.StringIO):
    """Standard error, with or without a person before it."""

    def __init__(self, *, person: bool) -> None:
        super().__init__()
        self._person = person

    def isatty(self) -> bool:
        return self._person


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(room, "AFTER", 0.0)
    monkeypatch.setenv("TERM", "xterm")


def test_who_waits_is_told_for_what_and_no_longer(monkeypatch):
    seen = Terminal(person=True)
    monkeypatch.setattr(sys, "stderr", seen)
    with waiting("the [red]gateway[/] answers"), waiting("a part of it"):
        wait_until(lambda: "the [red]gateway[/] answers" in seen.getvalue(), 60, "a sign")
    assert "a part of it" not in seen.getvalue()
    with waiting("another"):
        wait_until(lambda: "another" in seen.getvalue(), 60, "the next sign")


def test_nothing_is_told_to_a_program_or_on_the_screen_of_another(monkeypatch):
    for person, around in ((False, waiting("outside")), (True, unseen())):
        seen = Terminal(person=person)
        monkeypatch.setattr(sys, "stderr", seen)
        with around, waiting("the gateway answers"):
            pass
        assert seen.getvalue() == ""


def test_what_fails_leaves_no_sign(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal(person=True))
    with pytest.raises(ValueError, match="no"), waiting("it"):
        raise ValueError("no")
    assert room._shown == []
