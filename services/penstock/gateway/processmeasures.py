"""What processes count and measure of themselves, as Prometheus takes it. Pure.

Labels are bounded: services, processes, and the plugins that are installed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from penstock.gateway.families import counter, gauge
from penstock.gateway.processes import Answers
from penstock.model.process_numbers import FAMILIES, Family


def measured(answers: Answers) -> Iterator[Metric]:
    """Yield all that is measured of processes."""
    yield gauge("penstock_processes", "Processes of a service.", _by_service(answers.there))
    silent = {service: answers.silent.get(service, 0) for service in answers.there}
    yield gauge(
        "penstock_processes_silent",
        "Processes of a service that did not tell their numbers in time.",
        _by_service(silent),
    )
    yield gauge(
        "penstock_processes_left_out",
        "Processes that are not asked for their numbers.",
        [({}, answers.left_out)],
    )
    for name, family in FAMILIES.items():
        samples = list(_samples(answers, name, family))
        yield (counter if family.grows else gauge)(family.name, family.help, samples)


def _by_service(counts: Mapping[str, int]) -> list[tuple[Mapping[str, str], float]]:
    return [({"service": service}, count) for service, count in sorted(counts.items())]


def _samples(
    answers: Answers, name: str, family: Family
) -> Iterator[tuple[Mapping[str, str], float]]:
    named = Counter((one.service, one.name) for one in answers.told)
    for one in answers.told:
        # a name is kept, so that a series goes on; where it is not unique, it has to be the id
        process = one.name if named[one.service, one.name] == 1 else one.id
        for number in one.numbers:
            if number.name == name:
                # a process of another version may have other labels: all samples need the same
                labels = {label: number.labels.get(label, "") for label in family.labels}
                yield {"service": one.service, "process": process, **labels}, number.value
