"""Starts and stops the JVM and its Spark session, with a log file of its own.

pyspark can start a JVM too, but it loses the process when the start fails, and waits without limit
when the JVM hangs. So this module starts the process (`spawn`), waits for its address (`connect`),
and gives pyspark its address.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from socketserver import BaseServer
from typing import IO, Any, Final, TypeAlias

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import SparkSession

from penstock.model import faults
from penstock.model.errors import ConfigError, RetriableError
from penstock.spark.settings import EngineSettings

log = logging.getLogger(__name__)

JvmProcess: TypeAlias = subprocess.Popen[bytes]
logging.getLogger("py4j").setLevel(logging.ERROR)  # it logs every connection that it closes
# pyspark logs errors of plans, as JSON, beside raising them; and these loggers of its own turn
# every handler that they get to JSON
for _name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

LOG_NAME: Final = "jvm.log"
"""File with the output of the JVM and of Spark's Python workers, in the engine's scratch folder."""

START_TIMEOUT_S: Final = 120.0
"""Time within which the JVM must listen. It needs two seconds; more on an overloaded machine."""

STOP_TIMEOUT_S: Final = 10.0
"""Time for a session to stop. It needs one or two seconds, more while executors disconnect. A JVM
that hangs must not keep its process alive, so it is killed after this."""

POLL_INTERVAL_S: Final = 0.05
"""Interval between two checks for the file in which the JVM writes its address."""

ARCHIVE_FOLDER: Final = Path(sys.prefix) / "share" / "penstock"
"""Folder of the archive of Spark's classes (`penstock.spark.archive`). It belongs to the
environment and is removed with it."""

_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
_MAX_TAIL_BYTES: Final = 2000


@dataclass(frozen=True, slots=True)
class Jvm:
    """A running JVM with its session. The JVM ends when this process ends, however that happens: it
    reads the other end of a pipe.
    """

    session: SparkSession
    process: JvmProcess

    def has_ended(self, within_s: float = 0.0) -> bool:
        """Return whether the process has ended, or ends within this time."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(within_s)
        return self.process.returncode is not None

    def watch(self, on_end: Callable[[], object]) -> None:
        """Call `on_end` from another thread when the process has ended."""

        def wait() -> None:
            self.process.wait()
            on_end()

        threading.Thread(target=wait, name="jvm watch", daemon=True).start()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End session and JVM. Blocks for at most twice the timeout."""
        if not self.has_ended():
            # in a thread: a JVM that hangs would block its caller without limit
            stopping = threading.Thread(target=self._stop_session, name="jvm stop", daemon=True)
            stopping.start()
            stopping.join(timeout_s)
        _end_process(self.process, timeout_s)
        _reset_pyspark()

    def _stop_session(self) -> None:
        try:
            self.session.stop()
        except (Py4JError, OSError) as error:  # the signal that stops this process ended the JVM
            log.info("the Spark session was gone before it was stopped: %s", error)


def start_jvm(settings: EngineSettings, on_spawn: Callable[[JvmProcess], object] = bool) -> Jvm:
    """Start the JVM and return it with a session. Blocks for some seconds.

    `on_spawn` gets the process as soon as it exists, in this thread. Killing it makes this call
    fail.

    Raises:
        ConfigError: `engine.no_java`.
        RetriableError: `engine.start_failed`: the JVM ended, or does not listen in time; with the
            last lines of its log.
    """
    _require_java()
    # without these, Spark runs the `python3` of the PATH instead of this environment's
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    conf = _spark_conf(settings)
    logging.getLogger().addFilter(_is_not_from_py4j)
    began = time.monotonic()
    if settings.local_dir is not None:
        settings.local_dir.mkdir(parents=True, exist_ok=True)
    with _address_folder(settings.local_dir) as folder:
        with _open_log(settings.local_dir) as output:
            # a JVM that cannot start writes the reason to its standard output
            process = spawn(conf, folder, output)
        on_spawn(process)
        try:
            context = SparkContext(conf=conf, gateway=connect(process, folder))
            session = SparkSession(context)
            _ignore_hang_up(context._accumulatorServer)  # noqa: SLF001 - pyspark has no other way
        except Exception as error:
            message = _message_of(error)
            kill_process(process)
            _end_process(process)
            _reset_pyspark()
            raise RetriableError(
                "engine.start_failed",
                f"the Spark session did not start: {type(error).__name__}: {message}",
                fix="See the detail; check JAVA_HOME (17 or 21) and free memory.",
                detail=read_log_tail(settings.local_dir),
            ) from error
    log.info("Spark %s started in %.1f s", session.version, time.monotonic() - began)
    return Jvm(session, process)


def spawn(conf: SparkConf, folder: Path, output: IO[Any] | None) -> JvmProcess:
    """Start the JVM in a session of its own, so that a Ctrl-C in the terminal does not reach it.

    It ends when its standard input closes, thus with this process. It writes its address into a
    file in `folder`, which `connect` reads.
    """
    command = [str(Path(_find_spark_home(), "bin", "spark-submit"))]
    for key, value in conf.getAll():
        command += ["--conf", f"{key}={value}"]
    command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    environment = {
        **engine_environment(os.environ),
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(_address_file(folder)),
    }
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        env=environment,
        start_new_session=True,
    )


def connect(process: JvmProcess, folder: Path) -> Any:
    """Wait until the JVM listens, and return pyspark's gateway to it.

    Raises:
        ChildProcessError: The JVM ended first.
        TimeoutError: It does not listen in time.
    """
    address_file, deadline = _address_file(folder), time.monotonic() + START_TIMEOUT_S
    while not address_file.is_file():  # the JVM moves it into place when it is complete
        if process.poll() is not None:
            raise ChildProcessError(f"the JVM ended with status {process.returncode}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"the JVM did not listen within {START_TIMEOUT_S:g} s")
        time.sleep(POLL_INTERVAL_S)
    with address_file.open("rb") as file:
        port, secret = read_int(file), UTF8Deserializer().loads(file)
    with _variables({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
        return launch_gateway()


def kill_process(process: JvmProcess) -> None:
    """Kill the JVM, or the scripts that are about to become it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _address_folder(parent: Path | None) -> Iterator[Path]:
    """Yield a private folder for the JVM's address, which comes with a secret."""
    with tempfile.TemporaryDirectory(prefix="penstock-jvm-", dir=parent) as folder:
        yield Path(folder)


def _address_file(folder: Path) -> Path:
    return folder / "listens-at"


@contextmanager
def _variables(variables: dict[str, str]) -> Iterator[None]:
    """Set variables of this process in the body: pyspark takes its address from no other place."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


_PASSED_NAMES: Final = frozenset(
    "PATH HOME USER LOGNAME LANG LANGUAGE TZ TMPDIR LD_LIBRARY_PATH LD_PRELOAD VIRTUAL_ENV "
    "SSL_CERT_FILE SSL_CERT_DIR KRB5_CONFIG KRB5CCNAME "
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY "
    f"{faults.VARIABLE}".split()
)

_PASSED_PREFIXES: Final = (
    *("JAVA_", "JDK_", "_JAVA_", "SPARK_", "PYSPARK_", "HADOOP_", "YARN_", "KUBERNETES_"),
    *("LC_", "PYTHON", "MALLOC_", "GRPC_", "ARROW_", "OMP_"),
    "AWS_",  # the identity of this machine at the object store of the topics, which executors read
)


def engine_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return those of a worker's variables that its JVM and Python workers get.

    A worker's variables hold secrets: keys of this product (`PENSTOCK_…`), and what `${env:…}` may
    name. Functions of all users run in the engine, and none of them needs these. So only the
    variables that control how programs run are passed on.
    """
    return {name: value for name, value in environment.items() if _is_passed(name)}


def _is_passed(name: str) -> bool:
    # variables of proxies are written in small letters, too
    return name.upper() in _PASSED_NAMES or name.startswith(_PASSED_PREFIXES)


def java_command() -> str:
    """Return the command that starts the JVM, as Spark's own script finds it."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"


def archive_file() -> Path:
    """Return the path of the class archive for this Java and this Spark, which may not exist."""
    made_with = (pyspark.__version__, pyspark.__file__, str(Path(java_command()).resolve()))
    digest = hashlib.sha256("\n".join(made_with).encode()).hexdigest()[:16]
    return ARCHIVE_FOLDER / f"spark-{digest}.jsa"


def archive_option() -> str:
    """Return the JVM option that uses the class archive; empty when there is none."""
    file = archive_file()
    return f'"-XX:SharedArchiveFile={file}"' if file.is_file() else ""


def _require_java() -> None:
    java = java_command()
    if shutil.which(java) is None:
        raise ConfigError(
            "engine.no_java",
            f"Java could not be found: there is no {java}",
            fix="Install a JDK 17 or 21, or set JAVA_HOME.",
        )


def _spark_conf(settings: EngineSettings) -> SparkConf:
    conf = SparkConf().setMaster(settings.spark_master()).setAppName("penstock")
    for key, value in settings.spark_conf().items():
        conf.set(key, value)
    options = conf.get("spark.driver.extraJavaOptions", "") or ""
    conf.set(
        "spark.driver.extraJavaOptions",
        f"{options} {archive_option()} -Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
    )
    return conf


def _message_of(error: Exception) -> str:
    """Return the message of an error. Py4j gets it from the JVM, which may have ended meanwhile."""
    try:
        return str(error)[:500]
    except (Py4JError, OSError):
        return "the JVM ended"


def read_log_tail(folder: Path | None) -> str:
    """Return the last lines that the JVM printed; empty when it has no log of its own."""
    if folder is None or not (folder / LOG_NAME).is_file():
        return ""
    with (folder / LOG_NAME).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_TAIL_BYTES))
        return file.read().decode("utf-8", "replace")


@contextmanager
def _open_log(folder: Path | None) -> Iterator[IO[Any] | None]:
    """Yield the file for the output of the JVM; None for that of this process."""
    if folder is None:
        yield None
        return
    with (folder / LOG_NAME).open("ab") as file:
        yield file


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    """Drop the traceback that py4j logs when the JVM has ended: the engine reports that itself."""
    return record.msg != "Exception while sending command."


def _ignore_hang_up(server: BaseServer | None) -> None:
    """Keep pyspark's accumulator server from printing a traceback when the JVM closes its socket,
    which may happen before pyspark expects it. Any other error is still printed.
    """
    if server is None:
        return
    print_error = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if isinstance(sys.exc_info()[1], EOFError | OSError):
            log.debug("the JVM has closed its connection to the accumulator server")
        else:
            print_error(request, address)

    server.handle_error = handle_error  # type: ignore[method-assign, assignment] # pyspark makes it


def _end_process(process: JvmProcess, timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Close the pipe on which the JVM depends, and wait until it has ended."""
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        log.warning("the JVM did not end within %g s and is killed", timeout_s)
        kill_process(process)
        process.wait()


def _reset_pyspark() -> None:
    """Remove the ended JVM from pyspark's class variables, so that the next start makes a new
    one.
    """
    left, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None  # noqa: SLF001 - pyspark has no other way
    SparkContext._active_spark_context = None  # noqa: SLF001 - as above
    SparkSession._instantiatedSession = None  # noqa: SLF001 - as above
    if left is not None:
        with suppress(Py4JError, OSError):
            left.shutdown()
