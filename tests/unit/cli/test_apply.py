"""What a folder of files would change."""

import pytest

from penstock.cli.apply import Action, CurrentConnector, order_changes, plan_change, plan_deletion
from penstock.cli.connector_files import DesiredConnector, read_desired_connectors
from penstock.model.errors import ConfigError

ORDERS = DesiredConnector("orders", {"name": "orders", "tasks.max": "3"})
MORE = ({"key": "tasks.max", "before": "1", "after": "3"},)
DIFFERENT = ({"key": "a", "before": "1", "after": "2"},)


@pytest.mark.parametrize(
    ("desired", "current", "action", "tasks", "state"),
    [
        (ORDERS, CurrentConnector(), Action.CREATE, "up to 3 start", "RUNNING"),
        (
            DesiredConnector("a", {}, "STOPPED"),
            CurrentConnector(),
            Action.CREATE,
            "none",
            "STOPPED",
        ),
        (ORDERS, CurrentConnector(7, "RUNNING", 3), Action.NOTHING, "", ""),
        (ORDERS, CurrentConnector(7, "PAUSED", 3), Action.NOTHING, "", ""),
        (ORDERS, CurrentConnector(7, "RUNNING", 3, DIFFERENT), Action.UPDATE, "3 restart", ""),
        (
            DesiredConnector("a", {}, "STOPPED"),
            CurrentConnector(7, "RUNNING", 2),
            Action.STATE,
            "2 stop",
            "STOPPED",
        ),
        (
            DesiredConnector("a", {}, "RUNNING"),
            CurrentConnector(7, "STOPPED"),
            Action.STATE,
            "up to 1 start",
            "RUNNING",
        ),
        (
            DesiredConnector("a", {}, "RUNNING"),
            CurrentConnector(7, "PAUSED", 2),
            Action.STATE,
            "2 resume",
            "RUNNING",
        ),
        (
            DesiredConnector("a", {}),
            CurrentConnector(7, "STOPPED", 0, DIFFERENT),
            Action.UPDATE,
            "none",
            "",
        ),
        (
            DesiredConnector("a", {}),
            CurrentConnector(7, "PAUSED", 2, DIFFERENT),
            Action.UPDATE,
            "2 restart, paused",
            "",
        ),
        (
            DesiredConnector("a", {}, "STOPPED"),
            CurrentConnector(7, "RUNNING", 2, DIFFERENT),
            Action.UPDATE,
            "2 stop",
            "STOPPED",
        ),
        (
            DesiredConnector("a", {}, "RUNNING"),
            CurrentConnector(7, "STOPPED", 0, DIFFERENT),
            Action.UPDATE,
            "up to 1 start",
            "RUNNING",
        ),
        (
            ORDERS,
            CurrentConnector(7, "RUNNING", 1, MORE),
            Action.UPDATE,
            "1 stop, up to 3 start",
            "",
        ),
    ],
)
def test_what_is_to_be_done(desired, current, action, tasks, state):
    change = plan_change(desired, current)
    assert (change.action, change.tasks, change.state) == (action, tasks, state)


@pytest.mark.parametrize("revision", [0, 7])
def test_what_the_cluster_refuses_starts_no_task(revision):
    """Also where the file has a state, and differs from what is there."""
    current = CurrentConnector(revision, "RUNNING", 3, DIFFERENT, ({"code": "config.unknown_key"},))
    change = plan_change(DesiredConnector("orders", {}, "STOPPED"), current)
    assert (change.action, change.tasks, change.state) == (Action.REFUSE, "", "")
    assert (change.errors, change.differences) == (current.errors, DIFFERENT)


def test_what_stops_comes_before_what_starts():
    changes = [
        plan_change(ORDERS, CurrentConnector()),
        plan_change(ORDERS, CurrentConnector(7, "RUNNING", 3)),
        plan_change(ORDERS, CurrentConnector(7, "RUNNING", 3, DIFFERENT)),
        plan_deletion("old", 2),
    ]
    found = [change.action for change in order_changes(changes)]
    assert found == [Action.DELETE, Action.UPDATE, Action.CREATE, Action.NOTHING]


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
    found = {one.name: one for one in read_desired_connectors(tmp_path)}
    assert set(found) == {"a", "bee", "c", "p"}
    assert (found["a"].state, found["a"].config["tasks.max"]) == ("PAUSED", "2")
    assert "state" not in found["a"].config
    assert found["p"].config["source.connector.class"] == "a"
    assert found["p"].state == "STOPPED"


def test_two_files_of_one_name_are_refused(tmp_path):
    (tmp_path / "a.yaml").write_text("connector.class: x\n")
    (tmp_path / "b.yaml").write_text("name: a\nconnector.class: x\n")
    with pytest.raises(ConfigError, match=r"config\.duplicate_name"):
        list(read_desired_connectors(tmp_path))


@pytest.mark.parametrize("state", ["ASLEEP", "pausd", "[PAUSED]", "{a: PAUSED}"])
def test_a_state_that_is_none_is_refused(tmp_path, state):
    (tmp_path / "a.yaml").write_text(f"connector.class: x\nstate: {state}\n")
    with pytest.raises(ConfigError) as caught:
        list(read_desired_connectors(tmp_path))
    assert caught.value.code == "config.target_state"
    assert "a.yaml" in str(caught.value)


def test_an_empty_folder_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"apply\.no_files"):
        list(read_desired_connectors(tmp_path))


def test_an_initial_state_of_a_body_is_the_state(tmp_path):
    file = tmp_path / "c.json"
    file.write_text('{"name": "c", "config": {"connector.class": "x"}, "initial_state": "STOPPED"}')
    (one,) = read_desired_connectors(file)
    assert (one.name, one.state) == ("c", "STOPPED")
    assert one.config == {"name": "c", "connector.class": "x"}
