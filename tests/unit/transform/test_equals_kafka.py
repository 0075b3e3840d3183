"""Kafka's own transforms give the values of the golden tables, with documented exceptions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from py4j import java_gateway, protocol

from support.kafka_transforms import Kafka, compared, jars, kafka_name
from support.transforms import Case, cases

CASES = [case for case in cases() if kafka_name(case)]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """A JVM with Kafka's classes. pyspark replaces py4j's reader of answers for the whole process,
    and its own needs a Spark context: an engine that another file ended would fail each error here.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(java_gateway, "get_return_value", protocol.get_return_value)
        kafka = Kafka(jars())
        yield kafka
        kafka.close()


def name(case: Case) -> str:
    return f"{case.file}: {case.case}"


@pytest.mark.parametrize("case", [case for case in CASES if not case.kafka], ids=name)
def test_kafka_gives_the_values_of_the_table(kafka: Kafka, case: Case) -> None:
    found = compared(kafka, case)
    assert found.kafka == found.table


@pytest.mark.parametrize("case", [case for case in CASES if case.kafka], ids=name)
def test_a_difference_that_a_table_explains_still_exists(kafka: Kafka, case: Case) -> None:
    found = compared(kafka, case)
    assert found.kafka != found.table


def test_another_result_goes_red(kafka: Kafka) -> None:
    case = next(case for case in CASES if case.after and not case.kafka)
    found = compared(kafka, case)
    found.table[0] = {"another": "row"}
    assert found.kafka != found.table
