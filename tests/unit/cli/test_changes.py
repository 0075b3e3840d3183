"""What a folder of files would change."""

import pytest

from penstock.cli.remote.changes import Compared, Doing, Wanted, change_of, deleted, ordered
from penstock.cli.wanted import wanted_of
from penstock.model.errors import ConfigError

ORDERS = Wanted("orders", {"name": "orders", "tasks.max": "3"})
MORE = ({"key": "tasks.max", "before": "1", "after": "3"},)
DIFFERENT = ({"key": "a", "before": "1", "after": "2"},)


@pytest.mark.parametrize(
    ("wanted", "now", "doing", "tasks", "state"),
    [
        (ORDERS, Compared(), Doing.CREATE, "up to 3 start", "RUNNING"),
        (Wanted("a", {}, "STOPPED"), Compared(), Doing.CREATE, "none", "STOPPED"),
        (ORDERS, Compared(7, "RUNNING", 3), Doing.NOTHING, "", ""),
        (ORDERS, Compared(7, "PAUSED", 3), Doing.NOTHING, "", ""),
        (ORDERS, Compared(7, "RUNNING", 3, DIFFERENT), Doing.UPDATE, "3 restart", ""),
        (Wanted("a", {}, "STOPPED"), Compared(7, "RUNNING", 2), Doing.STATE, "2 stop", "STOPPED"),
        (
            Wanted("a", {}, "RUNNING"),
            Compared(7, "STOPPED"),
            Doing.STATE,
            "up to 1 start",
            "RUNNING",
        ),
        (Wanted("a", {}, "RUNNING"), Compared(7, "PAUSED", 2), Doing.STATE, "2 resume", "RUNNING"),
        (Wanted("a", {}), Compared(7, "STOPPED", 0, DIFFERENT), Doing.UPDATE, "none", ""),
        (
            Wanted("a", {}),
            Compared(7, "PAUSED", 2, DIFFERENT),
            Doing.UPDATE,
            "2 restart, paused",
            "",
        ),
        (
            Wanted("a", {}, "STOPPED"),
            Compared(7, "RUNNING", 2, DIFFERENT),
            Doing.UPDATE,
            "2 stop",
            "STOPPED",
        ),
        (
            Wanted("a", {}, "RUNNING"),
            Compared(7, "STOPPED", 0, DIFFERENT),
            Doing.UPDATE,
            "up to 1 start",
            "RUNNING",
        ),
        (ORDERS, Compared(7, "RUNNING", 1, MORE), Doing.UPDATE, "1 stop, up to 3 start", ""),
    ],
)
def test_what_is_to_be_done(wanted, now, doing, tasks, state):
    change = change_of(wanted, now)
    assert (change.doing, change.tasks, change.state) == (doing, tasks, state)


def test_what_stops_comes_before_what_starts():
    changes = [
        change_of(ORDERS, Compared()),
        change_of(ORDERS, Compared(7, "RUNNING", 3)),
        change_of(ORDERS, Compared(7, "RUNNING", 3, DIFFERENT)),
        deleted("old", 2),
    ]
    found = [change.doing for change in ordered(changes)]
    assert found == [Doing.DELETE, Doing.UPDATE, Doing.CREATE, Doing.NOTHING]


def test_files_of_every_form(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "connector.class: file-source\ntasks: {max: 2}\nstate: PAUSED\n"
    )
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.properties").write_text("name=bee\nconnector.class=file-sink\n")
    (tmp_path / "c.json").write_text('{"name": "c", "config": {"connector.class": "x"}}')
    (tmp_path / "p.yml").write_text(
        "source: {connector.class: a}\nsink: {connector.class: b}\nstate: STOPPED\n"
    )
    (tmp_path / "notes.txt").write_text("no file of ours")
    found = {one.name: one for one in wanted_of(tmp_path)}
    assert set(found) == {"a", "bee", "c", "p"}
    assert (found["a"].state, found["a"].config["tasks.max"]) == ("PAUSED", "2")
    assert "state" not in found["a"].config
    assert found["p"].config["source.connector.class"] == "a"
    assert found["p"].state == "STOPPED"


def test_two_files_of_one_name_are_refused(tmp_path):
    (tmp_path / "a.yaml").write_text("connector.class: x\n")
    (tmp_path / "b.yaml").write_text("name: a\nconnector.class: x\n")
    with pytest.raises(ConfigError, match=r"config\.duplicate_name"):
        list(wanted_of(tmp_path))


@pytest.mark.parametrize("state", ["ASLEEP", "pausd", "[PAUSED]", "{a: PAUSED}"])
def test_a_state_that_is_none_is_refused(tmp_path, state):
    (tmp_path / "a.yaml").write_text(f"connector.class: x\nstate: {state}\n")
    with pytest.raises(ConfigError) as caught:
        list(wanted_of(tmp_path))
    assert caught.value.code == "config.target_state"
    assert "a.yaml" in str(caught.value)


def test_an_empty_folder_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"apply\.no_files"):
        list(wanted_of(tmp_path))


def test_an_initial_state_of_a_body_is_the_state(tmp_path):
    file = tmp_path / "c.json"
    file.write_text('{"name": "c", "config": {"connector.class": "x"}, "initial_state": "STOPPED"}')
    (one,) = wanted_of(file)
    assert (one.name, one.state) == ("c", "STOPPED")
    assert one.config == {"name": "c", "connector.class": "x"}
