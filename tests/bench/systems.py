"""Systems that are no databases: `penstock run` beside what their clients do alone,
with the same rows, on the same server, by turns.

- search: documents of 120 bytes into Elasticsearch and OpenSearch, beside the bulk helpers of their
  clients (`pip install elasticsearch opensearch-py`)
- mqtt: messages of 100 bytes, which wait in a session of Mosquitto, beside a bare paho client
- metrics: StatsD by TCP into one task, as rows

Both sides are measured between the first tenth and the last row, so that no start is in a figure.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from penstock_kit.testing import PenstockProcess
from report import Report, arguments
from running import Output, pipeline, working_folder
from support.mosquitto import PASSWORD, USER, MosquittoServer
from support.search_servers import ElasticsearchServer, OpensearchServer, SearchServer

LOOK = 0.02
"""Seconds between two looks at what arrived: the error of each figure."""
GIVES_UP = 300.0


def rate(arrived: Callable[[], int], rows: int, process: PenstockProcess | None = None) -> float:
    """Return the rows/s between the first tenth and the last row. The process may not end."""
    began, first, seen = time.monotonic(), 0, 0.0
    while (now := arrived()) < rows:
        if not seen and now >= rows // 10:
            first, seen = now, time.monotonic()
        if process and process.returncode is not None:
            sys.exit(f"ended with {process.returncode}:\n{process.output[-5_000:]}")
        if time.monotonic() - began > GIVES_UP:
            sys.exit(f"{now} of {rows} rows after {GIVES_UP:.0f} s")
        time.sleep(LOOK)
    return (rows - first) / (time.monotonic() - seen) if seen else float("nan")


@contextmanager
def piped(
    folder: Path, source: Mapping[str, Any], sink: Mapping[str, Any]
) -> Iterator[PenstockProcess]:
    """Run a pipeline whose topic is called as the folder is."""
    folder.mkdir()
    content = {"topic": folder.name, "source": dict(source), "sink": dict(sink)}
    with pipeline(folder, content) as process:
        yield process
        process.stop()


# ── search ───────────────────────────────────────────────────────────────────────────────────────


def document(number: int) -> dict[str, Any]:
    """Return a document of about 120 bytes."""
    name = f"item number {number} of the shop"
    return {"id": number, "name": name, "price": number * 0.37, "at": "2026-01-01T00:00:00Z"}


def count_of(server: SearchServer, index: str) -> int:
    """Return how many documents an index has; 0 while there is none, or its shards start."""
    try:
        server.request("POST", f"/{index}/_refresh?ignore_unavailable=true")
        path = f"/{index}/_count?ignore_unavailable=true"
        return int(server.request("GET", path)["count"])
    except urllib.error.HTTPError:
        return 0


def search_leg(server: SearchServer, folder: Path, rows: int, runs: int, report: Report) -> None:
    """Documents by the sink, and by the client's helper."""
    file = folder / "rows.jsonl"
    file.write_text("".join(f"{json.dumps(document(n))}\n" for n in range(rows)), "utf-8")
    ours, theirs = [], []
    for run in range(runs + 1):
        index = f"ours{run}"
        source = {"connector.class": "file-source", "path": str(file), "format": "jsonl"}
        sink = {
            "connector.class": "elasticsearch-sink",
            "connection.url": server.url,
            "pk.fields": "id",
        }
        with piped(folder / index, source, sink) as process:
            ours.append(rate(lambda index=index: count_of(server, index), rows, process))
        helper = threading.Thread(target=by_helper, args=(server, f"theirs{run}", rows))
        helper.start()
        theirs.append(rate(lambda run=run: count_of(server, f"theirs{run}"), rows))
        helper.join()
    report.add(f"{server.name}, its bulk helper", "rows/s", *theirs[1:])
    report.add(f"{server.name}", "rows/s", *ours[1:], at_least=sorted(theirs[1:])[runs // 2])


def by_helper(server: SearchServer, index: str, rows: int) -> None:
    """Write documents by the bulk helper of the server's own client."""
    if server.name == "elasticsearch":
        from elasticsearch import Elasticsearch as Client
        from elasticsearch.helpers import streaming_bulk
    else:
        from opensearchpy import OpenSearch as Client
        from opensearchpy.helpers import streaming_bulk
    client: Any = Client(server.url)
    actions = ({"_index": index, "_id": n, "_source": document(n)} for n in range(rows))
    for _ in streaming_bulk(client, actions, chunk_size=2_000):
        pass
    client.close()


# ── mqtt ─────────────────────────────────────────────────────────────────────────────────────────


def mqtt_leg(folder: Path, rows: int, runs: int, report: Report) -> None:
    """Messages of a session, by the source, and by a bare client."""
    payloads = [json.dumps({"n": n, "text": "x" * 80}).encode() for n in range(rows)]
    ours, theirs = [], []
    with MosquittoServer(folder / "mosquitto") as server:
        for run in range(runs + 1):
            ours_name, theirs_name = f"ours{run}", f"theirs{run}"
            for name in (ours_name, theirs_name):
                server.subscribe(name, f"rows/{run}")
            for first in range(0, rows, 20_000):  # the client queues no more than 65,535
                server.publish(f"rows/{run}", *payloads[first : first + 20_000])
            source = {
                "connector.class": "mqtt-source",
                "mqtt.server.uri": server.uri,
                "mqtt.username": USER,
                "mqtt.password": PASSWORD,
                "mqtt.topics": f"rows/{run}",
                "mqtt.client.id": ours_name,
                "value.converter.schemas.enable": False,
            }
            output = Output(folder / f"out{run}")
            sink = {"connector.class": "file-sink", "file": str(output.file), "format": "jsonl"}
            with piped(folder / ours_name, source, sink) as process:
                ours.append(rate(Lines(output), rows, process))
            with server.client(theirs_name, clean=False, expiry=3600) as client:
                theirs.append(rate(lambda client=client: len(client.messages), rows))
    report.add("MQTT, a bare client", "rows/s", *theirs[1:])
    report.add("MQTT in", "rows/s", *ours[1:], at_least=0.8 * sorted(theirs[1:])[runs // 2])


# ── metrics ──────────────────────────────────────────────────────────────────────────────────────


def metrics_leg(folder: Path, rows: int, runs: int, report: Report) -> None:
    """Metrics that come by TCP, each a row."""
    data = b"".join(b"api.requests:%d|c|#host:web%d\n" % (n, n % 50) for n in range(rows))
    rates = []
    for run in range(runs + 1):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        source = {
            "connector.class": "statsd-source",
            "listen.host": "127.0.0.1",
            "listen.port": port,
            "protocol": "tcp",
            "mode": "raw",
        }
        output = Output(folder / f"metrics{run}")
        sink = {"connector.class": "file-sink", "file": str(output.file), "format": "jsonl"}
        with piped(folder / f"statsd{run}", source, sink) as process:
            sender = threading.Thread(target=send, args=(port, data))
            sender.start()
            rates.append(rate(Lines(output), rows, process))
            sender.join()
    report.add("StatsD into one task", "rows/s", *rates[1:], at_least=200_000)


def send(port: int, data: bytes) -> None:
    """Send bytes as soon as somebody listens."""
    for _ in range(600):
        try:
            with socket.create_connection(("127.0.0.1", port), 60) as connection:
                connection.sendall(data)
                return
        except ConnectionRefusedError:
            time.sleep(0.1)


class Lines:
    """Counts the visible lines of an output; each byte is read once."""

    def __init__(self, output: Output) -> None:
        self._output, self._read, self._count = output, dict[Path, int](), 0

    def __call__(self) -> int:
        """Return how many lines there are."""
        for part in self._output.parts():
            begin = self._read.get(part, 0)
            if part.stat().st_size > begin:
                with part.open("rb") as file:
                    file.seek(begin)
                    new = file.read()
                self._read[part] = begin + len(new)
                self._count += new.count(b"\n")
        return self._count


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--legs", default="search,mqtt,metrics")
    options = parser.parse_args()
    report = Report("systems", facts={"rows": options.rows})
    with working_folder(keep=options.keep) as folder:
        if "search" in options.legs:
            for kind in (ElasticsearchServer, OpensearchServer):
                with kind(folder / kind.name) as server:
                    search_leg(server, folder / kind.name, options.rows, options.runs, report)
        if "mqtt" in options.legs:
            mqtt_leg(folder, options.rows // 2, options.runs, report)
        if "metrics" in options.legs:
            metrics_leg(folder, options.rows * 5, options.runs, report)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
