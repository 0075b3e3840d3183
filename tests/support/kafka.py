"""A real broker of Kafka for tests: one process, on private ports and in a private folder.

    with KafkaServer(folder) as kafka:
        kafka.bootstrap; kafka.kill(); kafka.start()

Its jars come from Maven (`support.maven`). Besides the open listener there is one that asks for a
user (SASL: PLAIN, SCRAM and OAUTHBEARER; `USER` with `PASSWORD`; by PLAIN also `OTHER`), and one
that asks for a certificate (TLS). Tokens are believed without a signature. Users have all rights
but those that `forbid` takes from `USER`.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaException

from penstock_kit.testing import wait_until
from support import maven
from support.certificates import Authority
from support.kafka_questions import OTHER, USER, KafkaQuestions
from support.processes import DIES_WITH_US, free_ports

__all__ = ["OTHER", "OTHERS_PASSWORD", "PASSWORD", "USER", "VERSION", "KafkaServer"]

VERSION: Final = "4.3.1"
PASSWORD: Final = "secret-of-kafka"
OTHERS_PASSWORD: Final = "other-secret-of-kafka"
_CLUSTER: Final = "MkU3OEVBNTcwNTJENDM2Qg"
_START_S: Final = 90.0
_PROPERTIES: Final = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=OPEN://127.0.0.1:{port},USERS://127.0.0.1:{users},TLS://127.0.0.1:{tls},\
BOTH://127.0.0.1:{both},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=OPEN://127.0.0.1:{port},USERS://127.0.0.1:{users},TLS://127.0.0.1:{tls},\
BOTH://127.0.0.1:{both}
listener.security.protocol.map=OPEN:PLAINTEXT,USERS:SASL_PLAINTEXT,TLS:SSL,BOTH:SASL_SSL,\
CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=OPEN
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.users.plain.sasl.jaas.config={modules}.plain.PlainLoginModule required \
user_{user}="{password}" user_{other}="{others_password}";
listener.name.users.scram-sha-256.sasl.jaas.config={modules}.scram.ScramLoginModule required;
listener.name.users.scram-sha-512.sasl.jaas.config={modules}.scram.ScramLoginModule required;
listener.name.users.oauthbearer.sasl.jaas.config={modules}.oauthbearer.OAuthBearerLoginModule \
required unsecuredLoginStringClaim_sub="broker";
listener.name.tls.ssl.keystore.type=PEM
listener.name.tls.ssl.keystore.location={folder}/certificates/broker.both
listener.name.tls.ssl.truststore.type=PEM
listener.name.tls.ssl.truststore.location={folder}/certificates/ca.pem
listener.name.tls.ssl.client.auth=required
listener.name.both.plain.sasl.jaas.config={modules}.plain.PlainLoginModule required \
user_{user}="{password}";
listener.name.both.sasl.enabled.mechanisms=PLAIN
listener.name.both.ssl.keystore.type=PEM
listener.name.both.ssl.keystore.location={folder}/certificates/broker.both
log.dirs={folder}/log
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
"""


class KafkaServer(KafkaQuestions):
    """A broker that is its own controller. Leaving the `with` block kills it."""

    def __init__(self, folder: Path, version: str = VERSION, heap: str = "512m") -> None:
        """`version` is Kafka's; `heap` is how much memory Java takes for objects."""
        self._folder, self._version, self._heap = folder, version, heap
        self._port, self._users, self._tls, self._both, self.controller = free_ports(5)
        self.bootstrap = f"127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def guarded(self) -> str:
        """The listener that asks for a user."""
        return f"127.0.0.1:{self._users}"

    @property
    def tls(self) -> str:
        """The listener that asks for a certificate."""
        return f"127.0.0.1:{self._tls}"

    @property
    def guarded_tls(self) -> str:
        """The listener with TLS that asks for a user."""
        return f"127.0.0.1:{self._both}"

    def __enter__(self) -> Self:
        """Start it."""
        self.format()
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill it."""
        self.kill()

    def format(self, properties: Mapping[str, str] | None = None) -> None:
        """Write its files. `properties` are added to those above, or override them."""
        self.authority = Authority(self._folder / "certificates")
        certificate, private_key = self.authority.sign("broker", address="127.0.0.1")
        both = certificate.read_text(encoding="ascii") + private_key.read_text(encoding="ascii")
        certificate.with_suffix(".both").write_text(both, encoding="ascii")
        text = _PROPERTIES.format(
            port=self._port,
            users=self._users,
            tls=self._tls,
            both=self._both,
            controller=self.controller,
            folder=self._folder,
            modules="org.apache.kafka.common.security",
            user=USER,
            password=PASSWORD,
            other=OTHER,
            others_password=OTHERS_PASSWORD,
        )
        text += "".join(f"{key}={value}\n" for key, value in (properties or {}).items())
        (self._folder / "server.properties").write_text(text, encoding="utf-8")
        tool = [*self._java("-Xmx64m"), "kafka.tools.StorageTool", "format", "-t", _CLUSTER]
        subprocess.run(
            [*tool, "-c", str(self._folder / "server.properties")],
            check=True,
            timeout=_START_S,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _java(self, *options: str) -> list[str]:
        found = maven.jars(
            f"kafka-broker/{self._version}",
            f"org.apache.kafka:kafka_2.13:{self._version}",
            f"org.apache.kafka:kafka-tools:{self._version}",
            "org.slf4j:slf4j-simple:1.7.36",
        )
        return ["java", *options, "-cp", f"{found}/*"]

    def start(self) -> None:
        """Start the broker, and wait until it answers."""
        self.spawn()
        self.wait()

    def spawn(self) -> None:
        """Start the broker."""
        options = ("-Xms128m", f"-Xmx{self._heap}", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
        command = [*DIES_WITH_US, *self._java(*options), "kafka.Kafka"]
        with (self._folder / "kafka.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._folder / "server.properties")], stdout=log, stderr=log
            )

    def wait(self) -> None:
        """Wait until it answers."""
        wait_until(self._answers, _START_S, "the broker answers")

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            log = (self._folder / "kafka.log").read_text(encoding="utf-8", errors="replace")
            raise AssertionError(f"Kafka ended: {log[-2000:]}")
        with socket.socket() as probe:  # the client prints what it cannot reach
            if probe.connect_ex(("127.0.0.1", self._port)):
                return False
        try:
            return bool(self.admin().list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def kill(self) -> None:
        """Kill the broker with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Stop the broker in order: at its next start it believes what is on the disk."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(_START_S)
        self._process = None

    def segment(self, topic: str, number: int = 0) -> Path:
        """Return the file with the first messages of a partition."""
        return self._folder / "log" / f"{topic}-{number}" / f"{0:020}.log"
