"""Writes that share a transaction come out as if each had one of its own."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from penstock.store.port import Check, Conflict
from penstock.store.postgresql.writer import Request, decide, keys_to_read

KEYS = st.sampled_from("abcd")
CHECKS = st.lists(st.builds(Check, KEYS, st.none() | st.integers(0, 12)), max_size=2)
PUTS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=2)), min_size=1, max_size=3)


@given(
    known=st.dictionaries(KEYS, st.integers(1, 5)),
    writes=st.lists(st.tuples(CHECKS, PUTS), max_size=8),
)
def test_a_group_is_its_writes_one_after_the_other(known, writes):
    answer = asyncio.Future(loop=asyncio.new_event_loop())
    answer.get_loop().close()
    group = [Request(checks, puts, answer) for checks, puts in writes]
    state = {key: (revision, b"?") for key, revision in known.items()}
    revision, outcomes = 5, []
    for checks, puts in writes:
        at = {key: state[key][0] if key in state else 0 for key in "abcd"}
        if all(c.revision is None or at[c.key] == c.revision for c in checks):
            revision += 1
            outcomes.append(revision)
            for key, value in dict(puts).items():
                state.pop(key, None)
                if value is not None:
                    state[key] = (revision, value)
        else:
            outcomes.append(Conflict)
    decision = decide(group, 5, known)
    assert [o if isinstance(o, int) else type(o) for o in decision.outcomes] == outcomes
    left = {key: (r, b"?") for key, r in known.items() if key not in decision.removed}
    assert {**left, **decision.stored} == state
    assert decision.revision == revision
    assert [r for r, _ in decision.changes] == list(range(6, revision + 1))


def test_a_key_is_looked_up_once_and_only_when_its_revision_counts():
    checks = [Check("a", 1), Check("a", 2), Check("b", None)]
    request = Request(checks, [], asyncio.Future(loop=asyncio.new_event_loop()))
    request.result.get_loop().close()
    assert keys_to_read([request]) == [b"a"]
