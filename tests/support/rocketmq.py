"""A real cluster of RocketMQ for tests: a name server and a broker, on private ports and in a
private folder.

    with RocketmqCluster(folder) as rocketmq:
        rocketmq.namesrv; rocketmq.kill(); rocketmq.start()

Its jars come from Maven (`support.maven`). The broker asks for a user: `USER` with `PASSWORD`. It
takes TLS at the same port, as the name server does, with a certificate that `ca` signed. `mqadmin`
runs RocketMQ's own tool, with RocketMQ's own client.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock_rocketmq.cluster import Cluster, topic_fields
from penstock_rocketmq.config import ClusterConfig
from penstock_rocketmq.frames import Request
from penstock_rocketmq.storage import StoredMessages, decode_messages, encode_message

from penstock_connector import ConnectorError
from penstock_kit.testing import wait_until
from support import maven
from support.certificates import Authority
from support.processes import DIES_WITH_US, free_ports

VERSION: Final = "5.5.0"
USER, PASSWORD = "writer", "secret-of-rocketmq"
BROKER: Final = "broker-a"
_START_S: Final = 90.0
_LOGIN: Final = json.dumps({"username": USER, "password": PASSWORD}, separators=(",", ":"))
_INNER: Final = json.dumps({"accessKey": USER, "secretKey": PASSWORD}, separators=(",", ":"))
_NAMESRV: Final = """
listenPort={namesrv}
bindAddress=127.0.0.1
"""
_BROKER: Final = """
brokerClusterName=tests
brokerName={name}
brokerId=0
brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH
namesrvAddr=127.0.0.1:{namesrv}
listenPort={port}
bindAddress=127.0.0.1
brokerIP1=127.0.0.1
autoCreateTopicEnable=false
autoCreateSubscriptionGroup=false
storePathRootDir={folder}/store
storePathCommitLog={folder}/store/commitlog
mappedFileSizeCommitLog=16777216
mappedFileSizeConsumeQueue=60000
maxIndexNum=20000
maxHashSlotNum=5000
diskMaxUsedSpaceRatio=99
haListenPort={ha}
timerWheelEnable=false
waitTimeMillsInSendQueue=10000
waitTimeMillsInPullQueue=10000
authConfigPath={folder}/auth
authenticationEnabled=true
authenticationProvider=org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider
authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider
initAuthenticationUser={login}
innerClientAuthenticationCredentials={inner}
"""
_EXPORTS: Final = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)


class RocketmqCluster:
    """A name server and a broker. Leaving the `with` block kills both."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._namesrv, self._port, self._ha = free_ports(3)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._authority = Authority(folder / "certificates")

    @property
    def namesrv(self) -> str:
        """The address of the name server."""
        return f"127.0.0.1:{self._namesrv}"

    @property
    def broker(self) -> str:
        """The address of the broker."""
        return f"127.0.0.1:{self._port}"

    @property
    def ca(self) -> Path:
        """The certificate that signs those of both."""
        return self._authority.ca

    @property
    def login(self) -> dict[str, str]:
        """Keys of a connector that reach it."""
        return {"namesrv.addr": self.namesrv, "access.key": USER, "secret.key": PASSWORD}

    def __enter__(self) -> Self:
        """Start it."""
        conf = self._folder / "home" / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        names = {
            "namesrv": self._namesrv, "port": self._port, "ha": self._ha, "name": BROKER,
            "folder": self._folder, "login": _LOGIN, "inner": _INNER,
        }  # fmt: skip
        for file, text in (("namesrv.conf", _NAMESRV), ("broker.conf", _BROKER)):
            (self._folder / file).write_text(text.format(**names), encoding="utf-8")
        tools = f"accessKey: {USER}\nsecretKey: {PASSWORD}\n"
        (conf / "tools.yml").write_text(tools, encoding="utf-8")
        self._authority.sign("rocketmq", address="127.0.0.1")
        self._launch("namesrv", "org.apache.rocketmq.namesrv.NamesrvStartup", "64m")
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill both."""
        self.kill()
        self._kill("namesrv")

    def _java(self, *options: str) -> list[str]:
        found = maven.jars(
            f"rocketmq/{VERSION}",
            f"org.apache.rocketmq:rocketmq-namesrv:{VERSION}",
            f"org.apache.rocketmq:rocketmq-broker:{VERSION}",
            f"org.apache.rocketmq:rocketmq-tools:{VERSION}",
        )
        own = [
            f"-Duser.home={self._folder}",
            f"-Drocketmq.home.dir={self._folder / 'home'}",
            "-Dtls.test.mode.enable=false",
            f"-Dtls.server.certPath={self._authority.folder / 'rocketmq.pem'}",
            f"-Dtls.server.keyPath={self._authority.folder / 'rocketmq.key'}",
        ]
        return ["java", *options, "-XX:+UseSerialGC", *own, *_EXPORTS, "-cp", f"{found}/*"]

    def _launch(self, name: str, main: str, heap: str) -> None:
        command = [*DIES_WITH_US, *self._java("-Xms64m", f"-Xmx{heap}"), main]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*command, "-c", str(self._folder / f"{name}.conf")], stdout=log, stderr=log
            )

    def start(self) -> None:
        """Start the broker, and wait until the name server knows it."""
        self._launch("broker", "org.apache.rocketmq.broker.BrokerStartup", "256m")
        wait_until(self._answers, _START_S, "the name server knows the broker")

    def _answers(self) -> bool:
        for name, process in self._processes.items():
            if process.poll() is not None:
                log = (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
                raise AssertionError(f"{name} ended: {log[-2000:]}")
        cluster = self.client()
        try:
            if BROKER not in cluster.list_masters():
                return False
            cluster.remoting.channel(self.broker)
        except ConnectorError:
            return False
        else:
            return True
        finally:
            cluster.close()

    def kill(self) -> None:
        """Kill the broker with SIGKILL."""
        self._kill("broker")

    def _kill(self, name: str) -> None:
        if (process := self._processes.pop(name, None)) is not None:
            process.kill()
            process.wait()

    def freeze(self) -> None:
        """Stop the broker, so that it keeps its connections and answers nothing."""
        self._processes["broker"].send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen broker go on."""
        self._processes["broker"].send_signal(signal.SIGCONT)

    def client(self) -> Cluster:
        """Return a client; it must be closed."""
        return Cluster(
            ClusterConfig(namesrv_addr=(self.namesrv,), access_key=USER, secret_key=PASSWORD)
        )

    def create_topic(self, topic: str, queues: int = 1) -> None:
        """Create a topic, and wait until it is there. One that exists gets these queues."""
        cluster = self.client()
        request = Request.UPDATE_AND_CREATE_TOPIC

        def is_there() -> bool:
            route = cluster.route(topic)
            return route is not None and len(route.readable) == queues

        try:
            cluster.ask(self.broker, request, topic_fields(topic, queues), "creation")
            wait_until(is_there, 30, f"the topic {topic}")
        finally:
            cluster.close()

    def send(
        self, topic: str, *messages: tuple[bytes, bytes], queue: int = 0, at_ms: int = 0
    ) -> None:
        """Send messages of body and properties, and wait until they are stored."""
        cluster = self.client()
        body = b"".join(encode_message(*one) for one in messages)
        fields = {
            "a": "tests", "b": topic, "c": topic, "d": "1", "e": str(queue), "f": "0",
            "g": str(at_ms), "h": "0", "i": "", "j": "0", "k": "false", "m": "true",
        }  # fmt: skip
        try:
            channel = cluster.remoting.channel(self.broker)
            said = channel.call(Request.SEND_BATCH_MESSAGE, fields, "send", body=body)
            assert said.code == 0, said.remark
        finally:
            cluster.close()

    def read(self, topic: str, queue: int = 0) -> StoredMessages:
        """Return all messages of a queue."""
        cluster, found, at = self.client(), b"", 0
        try:
            low, high = cluster.bounds(self.broker, topic, queue)
            at = max(low, 0)
            while at < high:
                fields = {
                    "consumerGroup": "TOOLS_CONSUMER", "topic": topic, "queueId": str(queue),
                    "queueOffset": str(at), "maxMsgNums": "32", "sysFlag": "4",
                    "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*",
                    "subVersion": "0", "expressionType": "TAG",
                }  # fmt: skip
                said = cluster.ask(self.broker, Request.PULL_MESSAGE, fields, "pull")
                found, at = found + said.body, said.number("nextBeginOffset")
        finally:
            cluster.close()
        return decode_messages(found)

    def mqadmin(self, *words: str) -> str:
        """Run RocketMQ's own tool, and return what it prints."""
        main = "org.apache.rocketmq.tools.command.MQAdminStartup"
        done = subprocess.run(
            [*self._java("-Xmx128m"), main, *words, "-n", self.namesrv],
            check=False,
            timeout=_START_S,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def drop_topic(self, topic: str) -> None:
        """Delete a topic at the broker."""
        self.mqadmin("deleteTopic", "-c", "tests", "-t", topic)


def bodies_of(printed: str) -> Sequence[str]:
    """Return the bodies that `mqadmin consumeMessage` or `printMsg` printed."""
    return re.findall(r"BODY: (.*)", printed)
