"""Numbers of connectors, tasks and workers as Prometheus takes them."""

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from penstock.gateway import cluster_metrics, task_metrics
from penstock.gateway.cluster_metrics import cluster_families, format_families
from penstock.gateway.v1.bodies import describe_shares
from penstock.model.connector import ConnectorKind, TaskState, TaskStatus
from penstock.model.metrics import DatasetRows, MinMeanMax, PluginMetric, TaskMetrics, TimeShares
from penstock.model.status import (
    ClusterStatus,
    ConnectorStatus,
    RunState,
    RunStatus,
    WorkerStatus,
)

CLUSTER = ClusterStatus("s1", 7, (WorkerStatus("w1-id", "w1", connected=True, tasks=2),), 1, 0)


def task(number, state=RunState.RUNNING, **numbers):
    told = TaskStatus(f"g-{number}", "c", 1, TaskState.RUNNING, **numbers)
    return RunStatus(f"g-{number}", state, "w1", 1, restarts=2, task=told)


def samples(statuses, cluster=CLUSTER):
    text = format_families(cluster_families(cluster, statuses)).decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_each_number_has_our_name_and_kafka_connects():
    status = ConnectorStatus(
        "orders",
        "g",
        ConnectorKind.SINK,
        RunState.RUNNING,
        tasks=(task(0, rows_read=10, rows_written=8, rows_failed=2, rows_left=5), task(1)),
    )
    found = samples([status])
    of = (("connector", "orders"), ("task", "0"))
    assert found["penstock_task_rows_read_total", *of] == 10
    assert found["penstock_task_rows_failed_total", *of] == 2
    assert found["penstock_task_restarts_total", *of] == 2
    assert found["kafka_connect_sink_task_sink_record_read_total", *of] == 10
    assert found["kafka_connect_sink_task_sink_record_send_total", *of] == 8
    assert found["kafka_connect_sink_task_sink_record_lag_max", *of] == 5
    assert found["kafka_connect_task_error_total_record_errors", *of] == 2
    assert found["kafka_connect_connector_status", ("connector", "orders"), ("status", "running")]
    assert found["kafka_connect_worker_connector_running_task_count", ("connector", "orders")] == 2
    assert found["penstock_worker_tasks", ("worker", "w1")] == 2
    assert found["penstock_tasks_unassigned",] == 1
    assert not [key for key in found if key[0].startswith("kafka_connect_source_task")]


def test_what_is_unknown_is_left_out():
    status = ConnectorStatus("c", "g", ConnectorKind.SOURCE, RunState.RUNNING, tasks=(task(0),))
    names = {key[0] for key in samples([status])}
    assert "penstock_task_rows_left" not in names
    assert "penstock_task_rows_read_total" in names
    unassigned = RunStatus("g-0", RunState.UNASSIGNED)
    status = ConnectorStatus("c", "g", ConnectorKind.SOURCE, tasks=(unassigned,))
    assert "penstock_task_rows_read_total" not in {key[0] for key in samples([status])}


def test_a_cluster_without_anything_is_told():
    assert samples([], ClusterStatus("", 0))["penstock_tasks_left_out",] == 0


def test_names_of_connectors_are_escaped():
    name = 'a "quote"\\ and\na line'
    found = samples([ConnectorStatus(name, "g", ConnectorKind.SOURCE, RunState.PAUSED)])
    assert found["kafka_connect_connector_status", ("connector", name), ("status", "paused")] == 1


def test_of_too_many_tasks_connectors_alone_are_told(monkeypatch):
    monkeypatch.setattr(cluster_metrics, "MAX_TASKS", 2)
    tasks = tuple(task(number) for number in range(3))
    found = samples([ConnectorStatus("c", "g", ConnectorKind.SOURCE, tasks=tasks)])
    assert found["penstock_tasks_left_out",] == 3
    assert not [key for key in found if key[0].startswith("penstock_task_")]
    assert found["kafka_connect_worker_connector_total_task_count", ("connector", "c")] == 3


WORK = TaskMetrics(
    running=0.75,
    paused=0.25,
    starts=3,
    start_failures=1,
    commits_failed=1,
    rows_skipped=1,
    rows_under_way=7,
    partitions=4,
    commit_seconds=MinMeanMax(0.1, 0.2, 0.3),
    batch_rows=MinMeanMax(1, 2, 3),
    under_way=MinMeanMax(5, 6, 7),
)


def test_what_a_task_measures_has_kafka_connects_names():
    one = task(0, metrics=WORK, batches=3, rows_failed=3)
    kinds = {"a": ConnectorKind.SOURCE, "b": ConnectorKind.SINK}
    found = samples([ConnectorStatus(name, "g", k, tasks=(one,)) for name, k in kinds.items()])
    a, b = (("connector", "a"), ("task", "0")), (("connector", "b"), ("task", "0"))
    of_tasks = "kafka_connect_connector_task_"
    assert found[f"{of_tasks}running_ratio", *a] == 0.75
    assert found[f"{of_tasks}pause_ratio", *b] == 0.25
    assert found[f"{of_tasks}offset_commit_success_percentage", *a] == 0.75
    assert found[f"{of_tasks}offset_commit_failure_percentage", *a] == 0.25
    assert found[f"{of_tasks}offset_commit_max_time_ms", *a] == 300
    assert found[f"{of_tasks}batch_size_avg", *a] == 2
    assert found["kafka_connect_source_task_transaction_size_min", *a] == 1
    assert found["kafka_connect_source_task_source_record_active_count_max", *a] == 7
    assert found["kafka_connect_sink_task_sink_record_active_count", *b] == 7
    assert found["kafka_connect_sink_task_partition_count", *b] == 4
    assert found["kafka_connect_task_error_deadletterqueue_produce_requests", *b] == 2
    assert found["kafka_connect_task_error_total_records_skipped", *b] == 1
    assert found["penstock_task_start_failures_total", *a] == 1
    assert not [key for key in found if key[0].startswith("kafka_connect_source") and b[0] in key]
    assert "kafka_connect_sink_task_put_batch_max_time_ms" not in {key[0] for key in found}


def test_datasets_have_labels_of_their_own():
    rows = (DatasetRows("orders", 5, 4), DatasetRows("", 2, 2))
    one = task(0, datasets=rows, datasets_left_out=3)
    found = samples([ConnectorStatus("c", "g", ConnectorKind.SOURCE, tasks=(one,))])
    of = (("connector", "c"), ("dataset", "orders"), ("task", "0"))
    assert found["penstock_dataset_rows_read_total", *of] == 5
    assert found["penstock_dataset_rows_written_total", *of] == 4
    assert found["penstock_datasets_left_out",] == 3
    assert ("penstock_dataset_rows_read_total", of[0], ("dataset", ""), of[2]) in found


def test_numbers_of_plugins_have_their_names():
    told = (
        PluginMetric("mine", "source", "requests_total", 2),
        PluginMetric("mine", "sink", "requests_total", 3),
        PluginMetric("mine", "sink", "queue_size", 0.5),
    )
    found = samples(
        [ConnectorStatus("c", "g", ConnectorKind.PIPELINE, tasks=(task(0, plugin_metrics=told),))]
    )
    ends = {
        end: (("connector", "c"), ("end", end), ("plugin", "mine"), ("task", "0"))
        for end in ("source", "sink")
    }
    assert found["penstock_plugin_requests_total", *ends["source"]] == 2
    assert found["penstock_plugin_requests_total", *ends["sink"]] == 3
    assert found["penstock_plugin_queue_size", *ends["sink"]] == 0.5


def test_of_too_many_datasets_or_numbers_none_is_told(monkeypatch):
    monkeypatch.setattr(task_metrics, "MAX_SERIES", 2)
    rows = tuple(DatasetRows(name, 1, 1) for name in "abc")
    numbers = tuple(PluginMetric("p", "sink", name, 1) for name in "abc")
    one = task(0, datasets=rows, datasets_left_out=1, plugin_metrics=numbers)
    found = samples([ConnectorStatus("c", "g", ConnectorKind.SINK, tasks=(one,))])
    assert found["penstock_datasets_left_out",] == 4
    assert found["penstock_left_out_of_plugins",] == 3
    names = {key[0] for key in found}
    assert not [n for n in names if n.startswith(("penstock_dataset_", "penstock_plugin_a"))]


def test_no_name_of_a_plugin_is_one_of_ours():
    told = tuple(PluginMetric("p", "sink", name, 1) for name in ("a", "a_total", "numbers"))
    status = ConnectorStatus("c", "g", ConnectorKind.SINK, tasks=(task(0, plugin_metrics=told),))
    names = [family.name for family in cluster_families(CLUSTER, [status])]
    ours = [name for name in names if not name.startswith("penstock_plugin_")]
    assert len(set(ours)) == len(ours)
    assert len(names) - len(ours) == len(told)


def test_what_takes_most_of_the_time_is_said():
    assert describe_shares(TaskMetrics()) is None
    assert describe_shares(TaskMetrics(shares=TimeShares())) is None
    waits = TaskMetrics(shares=TimeShares(source=0.1, sink=0.62))
    assert describe_shares(waits) == "waits for the sink to commit, 62% of the time"
    slow = replace(waits, commit_seconds=MinMeanMax(0.1, 0.9, 1.2))
    text = "waits for the sink to commit: 900 ms a micro-batch, 62% of the time"
    assert describe_shares(slow) == text
