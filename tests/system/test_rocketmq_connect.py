"""The quick start of RocketMQ Connect, with its worker file and its requests as they are.

Lines of a file go through a topic into another file.

https://github.com/apache/rocketmq-connect, "Quick start". What differs: where the servers are, who
logs in, and where the files are.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import httpx
import pytest

from penstock_kit.testing import PenstockProcess
from support.checkout import ROOT
from support.processes import free_ports
from support.rocketmq import PASSWORD, USER, RocketmqCluster
from system.pipelines import ended, nothing_left

STANDALONE: Final = """\
workerId=standalone-worker
storePathRootDir={folder}/storeRoot

## Http port for user to access REST API
httpPort={port}

# Rocketmq namesrvAddr
namesrvAddr={namesrv}

# RocketMQ acl
aclEnable=true
accessKey={user}
secretKey={password}

autoCreateGroupEnable=false
clusterName="DefaultCluster"
"""

SOON: Final = 180.0


@pytest.mark.timeout(600)
def test_the_quick_start_runs_from_beginning_to_end(tmp_path: Path) -> None:
    read, written = tmp_path / "test-source-file.txt", tmp_path / "test-sink-file.txt"
    read.write_text("Hello \nRocketMQ\n Connect\n", encoding="utf-8")
    (port,) = free_ports(1)
    source = {
        "connector.class": "org.apache.rocketmq.connect.file.FileSourceConnector",
        "filename": str(read),
        "connect.topicname": "fileTopic",
        "max.tasks": "1",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    sink = {
        "connector.class": "org.apache.rocketmq.connect.file.FileSinkConnector",
        "filename": str(written),
        "connect.topicnames": "fileTopic",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    with RocketmqCluster(tmp_path / "rocketmq") as rocketmq:
        rocketmq.create_topic("fileTopic", 8)
        file = tmp_path / "connect-standalone.conf"
        values = {"user": USER, "password": PASSWORD, "namesrv": rocketmq.namesrv}
        file.write_text(STANDALONE.format(folder=tmp_path, port=port, **values), encoding="utf-8")
        with PenstockProcess(tmp_path / "run", "standalone", file) as process:
            process.wait_for(lambda: f":{port}" in process.output, SOON, "the REST API")
            for name, config in (("fileSourceConnector", source), ("fileSinkConnector", sink)):
                url = f"http://127.0.0.1:{port}/connectors/{name}"
                answer = httpx.post(url, json=config, timeout=120)
                assert answer.json()["body"]["filename"] == config["filename"], answer.text
            arrived = lambda: written.exists() and len(written.read_text().splitlines()) == 3  # noqa: E731
            process.wait_for(arrived, SOON, "three lines in the file")
            tasks = f"http://127.0.0.1:{port}/allocated/tasks"
            both_run = lambda: (  # noqa: E731 - a worker reports its tasks now and then
                len(httpx.get(tasks, timeout=60).json()["body"]["runningTasks"]) == 2
            )
            process.wait_for(both_run, SOON, "two running tasks")
            stop = f"http://127.0.0.1:{port}/connectors/fileSourceConnector/stop"
            assert httpx.get(stop, timeout=60).json()["status"] == 200
            process.stop()
            assert ended(process).code == 0
            nothing_left(process)
    assert sorted(written.read_text().splitlines()) == sorted(read.read_text().splitlines())
    assert PASSWORD not in process.output
    assert "warning: [config.not_here_yet] `workerId`" in process.output


@pytest.mark.parametrize("mode", ["standalone", "distributed"])
def test_its_command_takes_a_file_as_rocketmq_connects_does(tmp_path: Path, mode: str) -> None:
    file = tmp_path / "connect.conf"
    file.write_text("namesrvAdr=localhost:9876\n")
    command = ["bash", str(ROOT / "deploy" / "local" / "bin" / f"connect-{mode}.sh"), "-c", file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "[config.unknown_key]" in done.stderr
    assert "namesrvAdr" in done.stderr
