"""The example of the README: a metrics file goes from an SFTP server to Prometheus."""

import re
from pathlib import Path

import pytest
import yaml

from support.processes import PLAIN
from support.sftp import PASSWORD, Server
from system.pipelines import Pipeline

README = Path(__file__).parent.parent / "README.md"


@pytest.fixture
def files(tmp_path):
    """An SFTP server, and the folder that it serves."""
    root = tmp_path / "files"
    (root / "metrics").mkdir(parents=True)
    server = Server(root)
    server.start()
    yield server
    server.end()


def test_penstock_run_metrics_yaml_moves_a_metrics_file(files, prometheus, tmp_path):
    """`penstock run metrics.yaml`."""
    text = README.read_text(encoding="utf-8")
    document = yaml.safe_load(re.search(r"```yaml\n(source:\n.*?)```", text, re.DOTALL)[1])
    (files.root / "metrics/broker.prom").write_text(
        "# TYPE rocketmq_messages gauge\n"
        'rocketmq_messages{topic="orders"} 12\nrocketmq_messages{topic="bills"} 3\nrocketmq_up 1\n'
    )
    document["source"] |= {
        "sftp.host": "127.0.0.1", "sftp.port": files.port, "sftp.password": PASSWORD,
        "sftp.host.key": files.public, "tail": False,
    }  # fmt: skip
    document["sink"]["url"] = prometheus.write_url
    done = Pipeline(tmp_path / "run", document, module=PLAIN).run()
    assert done.code == 0, done.output
    found = prometheus.samples('{job="rocketmq"}')
    assert {
        (labels["__name__"], labels.get("topic"), values[0][1]) for labels, values in found
    } == {
        ("rocketmq_messages", "orders", "12"), ("rocketmq_messages", "bills", "3"),
        ("rocketmq_up", None, "1"),
    }  # fmt: skip
