"""Rates, from one look to the next."""

from penstock.cli.top import Rates


def look(rows, epoch=1, state="RUNNING", **more):
    task = {"id": 0, "epoch": epoch, "state": state, "restarts": 2, "rows_read": rows,
            "rows_written": rows // 2, **more}  # fmt: skip
    return {"connectors": [{"name": "a", "state": "RUNNING", "why": None, "tasks": [task]}]}


def test_rates_are_rows_of_the_time_between():
    rates = Rates()
    (first,) = rates.rows(look(1000), 10.0)
    assert (first["rows/s in"], first["tasks"], first["restarts"]) == ("0", "1/1", 2)
    (second,) = rates.rows(look(3000), 12.0)
    assert (second["rows/s in"], second["rows/s out"]) == ("1,000", "500")


def test_a_task_that_began_anew_has_no_rate_below_zero():
    rates = Rates()
    rates.rows(look(1000), 10.0)
    (anew,) = rates.rows(look(5, epoch=2), 12.0)
    assert anew["rows/s in"] == "0"


def test_what_is_left_is_only_told_when_all_know():
    rates = Rates()
    assert rates.rows(look(1, rows_left=1234), 1.0)[0]["left"] == "1,234"
    assert rates.rows(look(1), 2.0)[0]["left"] is None


def test_why_is_the_first_reason():
    (row,) = Rates().rows(look(1, state="FAILED", trace="[a.b] it broke"), 1.0)
    assert (row["why"], row["tasks"]) == ("[a.b] it broke", "0/1")


def test_a_warning_about_a_connector_hides_no_reason_of_its_tasks():
    found = look(1, state="FAILED", trace="[a.b] it broke")
    found["connectors"][0]["why"] = "[config.no_effect] `lag.target` has no effect here"
    assert Rates().rows(found, 1.0)[0]["why"] == "[a.b] it broke"
    found = look(1)
    found["connectors"][0]["why"] = "[config.no_effect] `lag.target` has no effect here"
    assert "lag.target" in Rates().rows(found, 1.0)[0]["why"]


def test_a_running_task_says_what_it_does_and_how_often_it_commits():
    rates, busy = Rates(), "waits for the sink to commit, 62% of the time"
    rates.rows(look(1, batches=4), 1.0)
    doing = {"busy_with": busy, "time_shares": {"source": 0.3, "sink": 0.62}}
    found = look(1, batches=9, **doing)
    idle = {"busy_with": "waits for rows", "time_shares": {"source": 0.99, "sink": 0.01}}
    found["connectors"][0]["tasks"].insert(
        0, {**found["connectors"][0]["tasks"][0], "id": 1} | idle
    )
    (row,) = rates.rows(found, 3.0)
    assert (row["batches/s"], row["why"]) == ("2.5", busy)
    (row,) = rates.rows(look(1, state="FAILED", trace="it broke", **doing), 4.0)
    assert row["why"] == "it broke"
    assert rates.rows(look(1, state="PAUSED", **doing), 4.0)[0]["why"] is None
