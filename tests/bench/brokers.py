"""The same lines through a topic of Kafka by Penstock and by Kafka Connect, in one session.

file → Kafka → file with both connectors running at once, texts as they are (string converters), one
partition. Both systems are measured as by `kafka_connect.py`, against the same broker.
"""

from __future__ import annotations

import os
import statistics
import sys

import kafka_connect
import lines
import through_topic
from file_to_file import WARM_UP
from kafka_connect import KafkaConnect, read_options
from report import Report


def main() -> int:
    """Measure both, print, write."""
    options = read_options(__doc__)
    for count in (WARM_UP, options.lines):
        lines.plain(count)
    report = Report("file → Kafka → file", facts={"lines": options.lines})
    kafka = KafkaConnect(options.anchors, options.connect_port)
    worker = {
        "topics.backend": "kafka",
        "bootstrap.servers": kafka.bootstrap,
        "value.converter": "string",
    }
    with kafka.running():
        ours = through_topic.measure(
            options.lines,
            options.runs,
            report,
            keep=options.keep,
            worker=worker,
            topic=f"penstock-{os.getpid()}",  # the broker keeps those of earlier runs
        )
    theirs = kafka_connect.measure(kafka, options.lines, options.runs)
    rates = (options.lines / seconds for seconds in theirs)
    report.add("Kafka Connect, append → last line in the file", "rows/s", *rates)
    ratio = statistics.median(theirs) / statistics.median(ours)
    report.add("Penstock : Kafka Connect", "times", ratio, note="its defaults")
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
