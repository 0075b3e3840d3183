"""A real JVM with Jolokia's agent for tests, on a private port.

    with JolokiaJvm(folder) as jvm:
        jvm.register('shop:type=Orders'); jvm.target; jvm.kill(); jvm.start()

The agent comes from Maven (`support.maven`). It asks for `USER` with `PASSWORD`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock_kit.testing import wait_until
from support import maven
from support.certificates import Authority
from support.processes import DIES_WITH_US, free_ports

USER, PASSWORD = "reader", "secret-of-jolokia"
_VERSION: Final = "2.6.0"
_MAIN: Final = Path(__file__).parent / "jolokia_targets" / "Orders.java"
_START_S: Final = 90.0


class JolokiaJvm:
    """One JVM. Leaving the `with` block kills it; with an authority it speaks TLS."""

    def __init__(self, folder: Path, authority: Authority | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._authority = folder, authority
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def target(self) -> str:
        """Its address."""
        scheme = "https" if self._authority else "http"
        return f"{scheme}://localhost:{self.port}"

    @property
    def keys(self) -> dict[str, str]:
        """Keys of a connector that asks it."""
        return {
            "targets": self.target, "auth.type": "basic", "auth.user": USER,
            "auth.password": PASSWORD,
        }  # fmt: skip

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = [f"host=localhost,port={self.port},user={USER},password={PASSWORD}"]
        if self._authority:
            options += ["protocol=https", f"keystore={self._key_store()}", "keyStoreType=PKCS12",
                        f"keystorePassword={PASSWORD}"]  # fmt: skip
        log = self._folder / "log"
        log.unlink(missing_ok=True)
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [
                    *DIES_WITH_US, "java", "-Xmx64m", "-XX:+UseSerialGC",
                    f"-javaagent:{_agent()}={','.join(options)}", str(_MAIN),
                ],
                stdin=subprocess.PIPE, stdout=out, stderr=out,
            )  # fmt: skip
        wait_until(self._answers, _START_S, "Jolokia answers")

    def register(self, name: str) -> None:
        """Register an MBean, and wait until it is."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n".encode())
        self._process.stdin.flush()
        line = f"registered {name}\n"
        wait_until(lambda: line in self._log(), _START_S, f"{name} is registered")

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.kill()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log()[-2000:]
        return "started with URL" in self._log()

    def _log(self) -> str:
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")

    def _key_store(self) -> Path:
        assert self._authority is not None
        certificate, private = self._authority.sign("localhost", address="127.0.0.1")
        store = self._folder / "keys.p12"
        subprocess.run(
            [
                "openssl", "pkcs12", "-export", "-in", str(certificate), "-inkey", str(private),
                "-out", str(store), "-passout", f"pass:{PASSWORD}",
            ],
            check=True, capture_output=True,
        )  # fmt: skip
        return store


def _agent() -> Path:
    folder = maven.cached(f"jolokia/{_VERSION}", _fetch)
    return folder / f"jolokia-agent-jvm-{_VERSION}-javaagent.jar"


def _fetch(folder: Path) -> Path:
    artifact = f"org.jolokia:jolokia-agent-jvm:{_VERSION}:jar:javaagent"
    command = ["mvn", "-B", "-q", "-ntp", "dependency:copy", f"-Dartifact={artifact}"]
    found = folder / "agent"
    subprocess.run([*command, f"-DoutputDirectory={found}"], check=True, timeout=900, cwd=folder)
    return found
