"""Starts and stops the JVM and its Spark session, with a log file of its own."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from socketserver import BaseServer
from typing import IO, Any, Final, TypeAlias

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from penstock.model.errors import ConfigError, RetriableError
from penstock.spark import archive, gateway
from penstock.spark.settings import EngineSettings

log = logging.getLogger(__name__)

Process: TypeAlias = subprocess.Popen[bytes]
logging.getLogger("py4j").setLevel(logging.ERROR)  # it tells of every connection it closes
# pyspark prints errors of plans, as JSON, beside raising them; and these loggers of its own turn
# every handler that they are given to JSON
for _name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

LOG_NAME: Final = "jvm.log"
"""What the JVM and Spark's Python workers print, in the engine's scratch folder."""

STOP_WITHIN: Final = 10.0
"""Seconds that a session may take to stop. It needs one or two, more while executors say goodbye; a
JVM that hangs must not keep its process alive, so it is killed after this."""

_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
_TAIL_BYTES: Final = 2000


@dataclass(frozen=True, slots=True)
class Jvm:
    """A running JVM with its session. The JVM ends with this process, however that ends: it reads
    the other end of a pipe.
    """

    session: SparkSession
    process: Process

    def gone(self, within: float = 0.0) -> bool:
        """Tell whether the process has ended, or ends within so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(within)
        return self.process.returncode is not None

    def watch(self, ended: Callable[[], object]) -> None:
        """Call `ended` from another thread when the process has ended."""

        def wait() -> None:
            self.process.wait()
            ended()

        threading.Thread(target=wait, name="jvm watch", daemon=True).start()

    def stop(self, within: float = STOP_WITHIN) -> None:
        """End session and JVM. Blocks for at most twice as many seconds."""
        if not self.gone():
            # a JVM that hangs would hold its caller for ever
            stopping = threading.Thread(target=self._stop_session, name="jvm stop", daemon=True)
            stopping.start()
            stopping.join(within)
        _end(self.process, within)
        _forget()

    def _stop_session(self) -> None:
        try:
            self.session.stop()
        except (Py4JError, OSError) as error:  # the JVM was ended by the same signal as we were
            log.info("the Spark session was gone before it was stopped: %s", error)


def start_jvm(settings: EngineSettings, spawned: Callable[[Process], object] = bool) -> Jvm:
    """Start the JVM and return it with a session. Blocks for some seconds.

    `spawned` gets the process as soon as there is one, in this thread: whoever kills it makes this
    call fail.

    Raises:
        ConfigError: `engine.no_java`.
        RetriableError: `engine.start_failed`: the JVM ended, or does not answer; with the last
            lines of its log.
    """
    _require_java()
    # without these, Spark runs whatever `python3` the PATH has, not this environment's
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    conf = _conf(settings)
    logging.getLogger().addFilter(_not_py4j)
    began = time.monotonic()
    if settings.local_dir is not None:
        settings.local_dir.mkdir(parents=True, exist_ok=True)
    with gateway.answer_folder(settings.local_dir) as folder:
        with _log_file(settings.local_dir) as output:
            # a JVM that cannot start says so on its standard output
            process = gateway.spawn(conf, folder, output)
        spawned(process)
        try:
            context = SparkContext(conf=conf, gateway=gateway.connect(process, folder))
            session = SparkSession(context)
            _hang_up_in_silence(context._accumulatorServer)  # noqa: SLF001 - pyspark has no other way
        except Exception as error:
            words = _words(error)
            gateway.kill(process)
            _end(process)
            _forget()
            raise RetriableError(
                "engine.start_failed",
                f"the Spark session did not start: {type(error).__name__}: {words}",
                fix="See the detail; check JAVA_HOME (17 or 21) and free memory.",
                detail=log_tail(settings.local_dir),
            ) from error
    log.info("Spark %s started in %.1f s", session.version, time.monotonic() - began)
    return Jvm(session, process)


def _words(error: Exception) -> str:
    """Return what an error says. Py4j asks the JVM for that, which may have ended over it."""
    try:
        return str(error)[:500]
    except (Py4JError, OSError):
        return "the JVM ended"


def log_tail(folder: Path | None) -> str:
    """Return the last lines that the JVM printed; nothing when it has no log of its own."""
    if folder is None or not (folder / LOG_NAME).is_file():
        return ""
    with (folder / LOG_NAME).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return file.read().decode("utf-8", "replace")


def _conf(settings: EngineSettings) -> SparkConf:
    conf = SparkConf().setMaster(settings.master).setAppName("penstock")
    for key, value in settings.spark_conf().items():
        conf.set(key, value)
    options = conf.get("spark.driver.extraJavaOptions", "") or ""
    conf.set(
        "spark.driver.extraJavaOptions",
        f"{options} {archive.option()} -Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
    )
    return conf


def _not_py4j(record: logging.LogRecord) -> bool:
    """Leave out what py4j logs, with a traceback, when the JVM is gone: we say so ourselves."""
    return record.msg != "Exception while sending command."


def _hang_up_in_silence(server: BaseServer | None) -> None:
    """Keep pyspark's server of accumulators from printing a traceback when the JVM closes its
    socket, which it may do before pyspark expects it. Any other error is still printed.
    """
    if server is None:
        return
    printed = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if isinstance(sys.exc_info()[1], EOFError | OSError):
            log.debug("the JVM has hung up its accumulators")
        else:
            printed(request, address)

    server.handle_error = handle_error  # type: ignore[method-assign, assignment] # pyspark makes it


def _require_java() -> None:
    java = archive.java()
    if shutil.which(java) is None:
        raise ConfigError(
            "engine.no_java",
            f"Java could not be found: there is no {java}",
            fix="Install a JDK 17 or 21, or set JAVA_HOME.",
        )


def _end(process: Process, within: float = STOP_WITHIN) -> None:
    """Close the pipe that the JVM lives by, and wait until it is gone."""
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        log.warning("the JVM did not end within %g s and is killed", within)
        gateway.kill(process)
        process.wait()


def _forget() -> None:
    """Take the dead JVM out of pyspark's class variables: the next start makes a new one."""
    left, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None  # noqa: SLF001 - pyspark has no other way
    SparkContext._active_spark_context = None  # noqa: SLF001 - as above
    SparkSession._instantiatedSession = None  # noqa: SLF001 - as above
    if left is not None:
        with suppress(Py4JError, OSError):
            left.shutdown()


@contextmanager
def _log_file(folder: Path | None) -> Iterator[IO[Any] | None]:
    """Yield where the output of the JVM goes; None for that of this process."""
    if folder is None:
        yield None
        return
    with (folder / LOG_NAME).open("ab") as file:
        yield file
