"""Assignment: sticky, even by weight, spread per connector, within placements (invariant 11)."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import ConfigError
from penstock.scheduler.state.assignment import (
    Task,
    Worker,
    assign_tasks,
    matches_placement,
    parse_placement,
)


def workers(number, **rest):
    return [Worker(f"w{n:03d}", **rest) for n in range(number)]


def tasks(connectors, each):
    return [Task(f"c{c:04d}-{n}", f"c{c:04d}") for c in range(connectors) for n in range(each)]


def moved(before, after):
    return {id_ for id_ in before if after.get(id_) != before[id_]}


def loads(assigned, of):
    counts = Counter(assigned.values())
    return sorted(counts[worker.id] for worker in of)


def test_a_fourth_worker_takes_exactly_thirty_of_120_tasks():
    before = assign_tasks(tasks(30, 4), workers(3), {})
    after = assign_tasks(tasks(30, 4), workers(4), before)
    assert len(moved(before, after)) == 30
    assert {after[id_] for id_ in moved(before, after)} == {"w003"}
    assert loads(after, workers(4)) == [30, 30, 30, 30]


def test_only_the_tasks_of_a_dead_worker_move():
    before = assign_tasks(tasks(200, 50), workers(100), {})
    lost = {id_ for id_, worker in before.items() if worker == "w000"}
    after = assign_tasks(tasks(200, 50), workers(100)[1:], before)
    assert moved(before, after) == lost
    assert max(loads(after, workers(100)[1:])) - min(loads(after, workers(100)[1:])) <= 1


@pytest.mark.parametrize("connectors", [1, 1000, 100_000])
def test_a_worker_that_joins_two_with_a_hundred_thousand_tasks_costs_no_lease(connectors):
    """A cost that grows with the square of the tasks does not end within the time of a test."""
    some = tasks(connectors, 100_000 // connectors)
    before = assign_tasks(some, workers(2), {})
    after = assign_tasks(some, workers(3), before)
    assert len(moved(before, after)) == 33_333
    assert loads(after, workers(3)) == [33_333, 33_333, 33_334]


def test_tasks_of_a_connector_are_spread():
    after = assign_tasks(tasks(7, 4), workers(4), {})
    for connector in range(7):
        held = [w for id_, w in after.items() if id_.startswith(f"c{connector:04d}")]
        assert len(set(held)) == 4


def test_of_tasks_that_may_move_those_of_the_crowded_connector_do():
    crowded, alone = tasks(1, 3), [Task(f"d{n}-0", f"d{n}") for n in range(3)]
    before = {task.id: "w000" for task in crowded + alone}
    after = assign_tasks(crowded + alone, workers(2), before)
    assert Counter(after[task.id] for task in crowded)["w001"] >= 1
    assert loads(after, workers(2)) == [3, 3]


def test_heavy_tasks_count_for_what_they_weigh():
    heavy = [Task("h-0", "h", weight=10)]
    light = [Task(f"l-{n}", "l") for n in range(10)]
    after = assign_tasks(heavy + light, workers(2), {})
    assert {id_ for id_, worker in after.items() if worker == after["h-0"]} == {"h-0"}


def test_a_worker_of_twice_the_capacity_takes_twice_as_much():
    large, small = Worker("large", capacity=2), Worker("small")
    after = assign_tasks(tasks(1, 30), [large, small], {})
    assert Counter(after.values()) == {"large": 20, "small": 10}


def test_a_draining_worker_gets_nothing_and_gives_up_what_it_has():
    before = assign_tasks(tasks(10, 3), workers(3), {})
    draining = [Worker("w000", draining=True), *workers(3)[1:]]
    after = assign_tasks(tasks(10, 3), draining, before)
    assert loads(after, draining) == [0, 15, 15]
    assert moved(before, after) == {id_ for id_, worker in before.items() if worker == "w000"}


def test_placement_is_kept_and_what_fits_nowhere_is_absent():
    ssd = parse_placement("disk=ssd, zone=a|b")
    some = [Task(f"s-{n}", "s", placement=ssd) for n in range(4)]
    nowhere = [Task("n-0", "n", placement=parse_placement("zone=z"))]
    there = [
        Worker("w0", {"disk": "ssd", "zone": "a"}),
        Worker("w1", {"disk": "hdd", "zone": "a"}),
        Worker("w2", {"disk": "ssd", "zone": "c"}),
        Worker("w3", {"disk": "ssd", "zone": "b"}),
    ]
    after = assign_tasks([*some, *nowhere, *tasks(1, 4)], there, {"n-0": "w1"})
    assert Counter(after[task.id] for task in some) == {"w0": 2, "w3": 2}
    assert "n-0" not in after
    assert loads(after, there) == [2, 2, 2, 2]


def test_without_workers_nothing_is_assigned():
    assert assign_tasks(tasks(2, 2), [], {"c0000-0": "w000"}) == {}


@pytest.mark.parametrize("text", ["zone", "=a", "zone=", "zone=a,zone=b", "zone=|"])
def test_a_placement_that_cannot_be_read_is_refused(text):
    with pytest.raises(ConfigError, match=r"scheduler\.placement"):
        parse_placement(text)


def test_placement_labels():
    assert parse_placement(" zone = b | a ,disk=ssd,") == (("disk", ("ssd",)), ("zone", ("a", "b")))
    assert matches_placement(parse_placement(""), {})
    assert not matches_placement(parse_placement("zone=a"), {})


ZONES = st.sampled_from(["", "zone=a", "zone=b", "zone=a|b", "zone=z"])


@st.composite
def situations(draw):
    """Tasks, workers and owners, some of which are not there any more."""
    some = [
        Task(f"c{c}-{n}", f"c{c}", draw(st.sampled_from([0.5, 1, 1, 1, 2.5, 7])), placement)
        for c in range(draw(st.integers(0, 5)))
        for placement in [parse_placement(draw(ZONES))]
        for n in range(draw(st.integers(0, 7)))
    ]
    there = [
        Worker(
            f"w{n}",
            draw(st.sampled_from([{"zone": "a"}, {"zone": "b"}, {}])),
            draw(st.sampled_from([1, 1, 1, 2, 0.5])),
            draw(st.booleans()) and draw(st.booleans()),
            draw(st.booleans()) and draw(st.booleans()),
        )
        for n in range(draw(st.integers(0, 6)))
    ]
    owner = st.sampled_from([f"w{n}" for n in range(8)])
    return some, there, {task.id: draw(owner) for task in some if draw(st.booleans())}


def load_of(assigned, some, worker):
    weight = sum(Fraction(str(t.weight)) for t in some if assigned.get(t.id) == worker.id)
    return weight / Fraction(str(worker.capacity))


@given(situations())
def test_any_situation_is_answered_within_the_rules(situation):
    some, there, owners = situation
    after = assign_tasks(some, there, owners)
    by_id = {worker.id: worker for worker in there}
    for task in some:
        able = [
            w
            for w in there
            if not w.draining
            and matches_placement(task.placement, w.labels)
            and (not w.disconnected or owners.get(task.id) == w.id)
        ]
        assert (task.id in after) == bool(able)
        if task.id in after:
            assert by_id[after[task.id]] in able
    for task in some:
        if task.id in after:
            no_move_gains(task, some, there, after)


def no_move_gains(task, some, there, after):
    """Moved anywhere else, the task would make a worker as heavy as its own is now."""
    own = next(worker for worker in there if worker.id == after[task.id])
    for other in there:
        if other is own or own.disconnected or other.disconnected or other.draining:
            continue
        if matches_placement(task.placement, other.labels):
            weight = Fraction(str(task.weight)) / Fraction(str(other.capacity))
            assert load_of(after, some, other) + weight >= load_of(after, some, own)


@given(situations(), st.randoms())
def test_an_answer_is_final_and_does_not_depend_on_order(situation, random):
    some, there, owners = situation
    after = assign_tasks(some, there, owners)
    assert assign_tasks(some, there, after) == after
    random.shuffle(some)
    random.shuffle(there)
    assert assign_tasks(some, there, owners) == after


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 9))
def test_no_more_tasks_move_than_must(number, before, after):
    some = [Task(f"c-{n:03d}", f"c{n % 4}") for n in range(number)]
    old = assign_tasks(some, workers(before), {})
    new = assign_tasks(some, workers(after), old)
    gone = sum(worker not in {w.id for w in workers(after)} for worker in old.values())
    share = number // after + (number % after > 0)
    most = gone + share * max(0, after - before)
    assert len(moved(old, new)) <= most
    assert max(loads(new, workers(after))) - min(loads(new, workers(after))) <= 1
