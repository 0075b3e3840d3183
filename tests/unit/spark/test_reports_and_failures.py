"""The pure parts: reports, jobs, settings, and what an exception means."""

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkImportError

from penstock.model.errors import DataError, Diagnostic, ErrorClass, RetriableError, Severity
from penstock.model.ticket import SlotReport
from penstock.spark import failures, slot_reports
from penstock.spark.settings import EngineSettings
from penstock.spark.spark_jobs import CANCEL_INTERVAL_S, SparkJobs

REASON = Diagnostic("a.b", 'quoted "text"\nand a line', ErrorClass.DATA, Severity.WARNING, "fix")


@pytest.mark.parametrize(
    "value",
    [
        SlotReport(0, 1),
        SlotReport(3, 2**40, 10, 8, ((1, REASON), (2, REASON)), {"files": [{"path": "x"}]}),
        SlotReport(1, 1, error=REASON, seconds=0.25),
    ],
)
def test_a_report_comes_back_as_it_was(value):
    rows = pa.Table.from_batches([slot_reports.encode_report(value)]).to_pylist()
    assert [slot_reports.decode_report(row) for row in rows] == [value]


def test_a_diagnostic_survives_inside_a_foreign_text():
    error = DataError("x.y", 'a "b"\n\\ c', fix="d")
    wrapped = slot_reports.wrap_error(error)
    text = f"Job aborted: Traceback\n  raise\nRuntimeError: {wrapped}\n\n\tat java"
    assert slot_reports.find_diagnostic(text) == error.diagnostic
    assert failures.job_error(RuntimeError(text)).diagnostic == error.diagnostic


@pytest.mark.parametrize(
    "text",
    [
        "nothing",
        slot_reports.MARKER,
        f"{slot_reports.MARKER}{{",
        f'{slot_reports.MARKER}{{"a": 1}}',
    ],
)
def test_a_diagnostic_that_was_cut_is_none(text):
    assert slot_reports.find_diagnostic(text) is None
    assert failures.job_error(RuntimeError(text)).code == "engine.job_failed"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x\n[CAST_INVALID_INPUT] The value 'n1' … SQLSTATE: 22018\n\tat", DataError),
        ("org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] no", DataError),
        ("org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division", DataError),
        ("org.apache.spark.SparkException: Job aborted due to stage failure", RetriableError),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly", RetriableError),
        ("SQLSTATE: 42703", RetriableError),
        ("", RetriableError),
    ],
)
def test_a_bad_row_is_told_from_a_lost_worker(text, kind):
    error = failures.job_error(RuntimeError(text))
    assert type(error) is kind
    assert "\n" not in error.diagnostic.message


def test_a_missing_package_is_not_blamed_on_the_transforms():
    missing = PySparkImportError(
        errorClass="PACKAGE_NOT_INSTALLED",
        messageParameters={"package_name": "Pandas", "minimum_version": "2.2.0"},
    )
    error = failures.plan_error(missing)
    assert error.code == "engine.package_missing"
    assert "Pandas" in error.diagnostic.message


def test_an_order_to_cancel_is_repeated_until_the_job_has_ended():
    """Spark forgets one that comes before the job."""
    jobs, orders, enough = SparkJobs(), [], threading.Event()

    def order(group: str) -> None:
        orders.append(group)
        if len(orders) == 3:
            enough.set()

    with jobs.run("t") as job, jobs.run("other") as other:
        assert jobs.of_task("t") == [job]
        assert {*jobs.all()} == {job, other}
        assert job.group != other.group
        ended = threading.Event()
        job.cancel(order, ended.set)
        job.cancel(order, ended.set)
        assert enough.wait(60)
        assert not ended.is_set()
        job.end()
        assert ended.wait(60)
        after = len(orders)
    threading.Event().wait(CANCEL_INTERVAL_S * 3)
    assert len(orders) <= after + 1
    assert {*orders} == {job.group}
    assert jobs.running == 0


def test_what_the_user_says_wins():
    conf = EngineSettings(extra={"spark.ui.enabled": "true", "x": "y"}).spark_conf()
    assert (conf["spark.ui.enabled"], conf["x"]) == ("true", "y")


def test_sockets_are_made_in_the_scratch_folder_where_their_paths_are_not_too_long():
    key = "spark.python.unix.domain.socket.dir"
    assert EngineSettings(local_dir=Path("/run/p")).spark_conf()[key] == "/run/p"
    longest = Path("/" + "x" * 60)
    assert EngineSettings(local_dir=longest).spark_conf()[key] == str(longest)
    assert key not in EngineSettings(local_dir=Path(f"{longest}x")).spark_conf()


def test_everything_that_spark_writes_is_under_the_local_folder():
    conf = EngineSettings(local_dir=Path("/run/p")).spark_conf()
    assert conf["spark.local.dir"] == "/run/p"
    assert conf["spark.sql.warehouse.dir"] == "/run/p/warehouse"
    assert Path(EngineSettings().spark_conf()["spark.sql.warehouse.dir"]).is_absolute()


def test_jars_are_given_by_path():
    settings = EngineSettings(jars=(Path("/a.jar"), Path("/b.jar")))
    assert settings.spark_conf()["spark.jars"] == "/a.jar,/b.jar"


def test_nothing_is_tried_twice_by_spark():
    settings = EngineSettings()
    assert settings.master.endswith(",1]")
    assert settings.spark_conf()["spark.task.maxFailures"] == "1"
    assert settings.spark_conf()["spark.speculation"] == "false"
