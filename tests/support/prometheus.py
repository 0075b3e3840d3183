"""A real Prometheus for tests, on a private port and folder, which takes remote writes.

    with PrometheusServer(folder) as server:
        server.samples("up")

Its package is Debian's (`support.debian`).
"""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock_kit.testing import wait_until
from support import debian
from support.processes import DIES_WITH_US, free_ports

_ANSWERS_WITHIN = 10.0
_STARTS_WITHIN = 30.0


class PrometheusServer:
    """One server. Leaving the `with` block kills it; `web_config` is the file of TLS and logins."""

    def __init__(self, folder: Path, web_config: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.port = folder, free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        self.write_url = f"{self.url}/api/v1/write"
        self._secured = bool(web_config)
        (folder / "prometheus.yml").write_text("global: {scrape_interval: 1h}\n")
        (folder / "web.yml").write_text(web_config)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        ready = "Server is ready to receive web requests"
        before = self._told(ready)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *DIES_WITH_US, str(_program()), "--web.enable-remote-write-receiver",
                    f"--config.file={self.folder / 'prometheus.yml'}",
                    f"--web.config.file={self.folder / 'web.yml'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                ],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        wait_until(
            lambda: self._told(ready) > before,
            _STARTS_WITHIN,
            "Prometheus to be ready",
        )

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
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

    def samples(self, selector: str) -> list[tuple[dict[str, str], list[tuple[float, str]]]]:
        """Return the series that a selector finds in the last ten years, and their samples: seconds
        and value, as the server writes it.
        """
        found = self._ask("query", query=f"{selector}[10y]")["result"]
        return [
            (one["metric"], [(float(at), value) for at, value in one["values"]]) for one in found
        ]

    def _told(self, words: str) -> int:
        log = self.folder / "log"
        return log.read_text().count(words) if log.exists() else 0

    def _ask(self, what: str, **words: str) -> Any:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(url, timeout=_ANSWERS_WITHIN) as answer:
            return json.load(answer)["data"]


def _program() -> Path:
    return debian.unpacked("prometheus", "prometheus") / "usr/bin/prometheus"
