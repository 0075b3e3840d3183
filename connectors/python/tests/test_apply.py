"""What a connector owns outside: its author hears what happened, and what was applied last."""

from dataclasses import dataclass

import pytest

from penstock_connector import ApplyAction, Batch, Source
from penstock_connector.testing import apply_action


@dataclass(frozen=True)
class Config:
    slot: str
    size: int = 1


class Owner(Source[Config]):
    """Says what it did."""

    name = "owner"

    @classmethod
    def apply_action(cls, config, action, *, last=None):
        gone = [f"drop {last.slot}"] if last and last.slot != config.slot else []
        return [*gone, f"{action.name} {config.slot}"]

    def read_batch(self) -> Batch | None:
        return None


class Bare(Source[Config]):
    """Owns nothing outside."""

    name = "bare"


@pytest.mark.parametrize("action", ApplyAction)
def test_an_author_hears_what_happened(action):
    assert apply_action(Owner, {"slot": "a"}, action) == ([f"{action.name} a"], [])
    assert apply_action(Bare, {"slot": "a"}, action) == ([], [])


def test_what_was_applied_last_is_compared():
    done, found = apply_action(Owner, {"slot": "b"}, ApplyAction.UPDATE, last={"slot": "a"})
    assert (done, found) == (["drop a", "UPDATE b"], [])


def test_an_earlier_configuration_that_cannot_be_read_is_warned_about():
    last = {"slot": "a", "size": "large"}
    done, found = apply_action(Owner, {"slot": "b"}, ApplyAction.UPDATE, last=last)
    assert (done, found) == (["UPDATE b"], ["config.last_applied"])
