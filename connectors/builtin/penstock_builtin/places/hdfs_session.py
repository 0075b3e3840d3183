"""Calls to HDFS: with a deadline, tried again, answered or told in our words.

The library (hdfs-native) has no Java in it, and no deadlines. Each call has a thread of its own, so
that one that hangs can be given up.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from penstock_builtin.places.hdfs_keys import HdfsKeys, HdfsUrl, refuse_kerberos
from penstock_connector import AuthError, ConfigError, ConnectorError, RetriableError
from penstock_connector.connection import Retry

T = TypeVar("T")

_CALL_WITHIN: Final = 45.0
"""Seconds that a call may take. A block is written or read within it, or the cluster is ill."""

_ASK_WITHIN: Final = 15.0
"""Seconds for one try of a call that is made again: one over a connection that broke may hang."""

_RETRY: Final = Retry(1000, 0.1, max_backoff_s=3.0, within_s=45.0, jitter=True)
"""Calls are made again as long as those to object stores are; then the task as a whole."""

_PATIENCE: Final = {
    "dfs.client.failover.max.attempts": "4",
    "dfs.client.failover.sleep.base.millis": "100",
    "dfs.client.failover.sleep.max.millis": "1000",
}
"""Tries of the library: enough to find the active one of name nodes. Its own defaults take minutes
when there is none."""

_USER: Final = "HADOOP_USER_NAME"

_END_WITHIN: Final = 10.0
"""Seconds that the end of the process waits for calls that were given up. The library ends the
whole process with an error when Python ends under it."""

_lock = threading.Lock()
_left_behind: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_users: dict[str, int] = {}
"""Sessions by user: the library takes the user of a connection from the process."""


class HdfsSession:
    """Calls to one cluster, as one user."""

    def __init__(self, keys: HdfsKeys, url: HdfsUrl) -> None:
        """Connects to nothing yet.

        Raises:
            ConfigError: `hdfs.not_installed`, `hdfs.kerberos`, `hdfs.bad_settings`,
                `hdfs.other_user`.
        """
        self._where = url.at("")
        settings = {**_PATIENCE, **keys.settings(url)}
        refuse_kerberos(settings)
        self._stopping = threading.Event()
        self._user = keys.hdfs_user
        client_type = _client_type()
        _be_user(self._user)
        try:
            self.client = client_type(keys.address(url), settings)
        except Exception as error:
            self.close()
            raise self._told(error, self._where) from error

    def ask(self, call: Callable[[], T], path: str) -> T:
        """Return what a call returns that may be made twice, once it is answered.

        Raises:
            FileNotFoundError, FileExistsError: as the cluster says.
            ConnectorError: anything else.
        """
        return _RETRY.call(
            lambda: self.once(call, path, min(_ASK_WITHIN, _CALL_WITHIN)), self._stopping.wait
        )

    def once(self, call: Callable[[], T], path: str, within: float | None = None) -> T:
        """Return what one call returns. One that hangs is left behind, in its own thread."""
        within = _CALL_WITHIN if within is None else within
        answer: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        caller = threading.Thread(target=_answer, args=(call, answer), name="hdfs", daemon=True)
        caller.start()
        try:
            found, error = answer.get(timeout=within)
        except queue.Empty:
            _left_behind.add(caller)
            raise _unreachable(f"{self._where} did not answer within {within:g} s") from None
        if error is None:
            return cast("T", found)
        if isinstance(error, FileNotFoundError | FileExistsError | ConnectorError):
            raise error
        raise self._told(error, path) from error

    def close(self) -> None:
        """Try nothing again any more."""
        if not self._stopping.is_set():
            self._stopping.set()
            _leave_user(self._user)

    def _told(self, error: BaseException, path: str) -> ConnectorError:
        """Return what the cluster says, or why there is no answer."""
        text = " ".join(str(error).replace("\\n", " ").split())[:500]
        where = f"{path}: {text or type(error).__name__}"
        if "SafeModeException" in text:
            return RetriableError(
                "hdfs.safe_mode", where, fix="The cluster is starting, or is repaired: wait."
            )
        if "AccessControlException" in text and "authentication is not enabled" not in text:
            return AuthError(
                "hdfs.denied",
                where,
                fix="Give the user of `hdfs.user` the right to it, or name another.",
                config_path="hdfs.user",
            )
        if any(sign in text for sign in _WANTS_KERBEROS):
            return AuthError(
                "hdfs.denied",
                f"{self._where} wants another authentication than a user's name: {text}",
                fix="Kerberos is not supported: use a cluster with simple authentication.",
                config_path="hdfs.user",
            )
        if any(sign in text for sign in _QUOTA):
            return RetriableError(
                "hdfs.full", where, fix="Free some space, or raise the quota of the folder."
            )
        if "ParentNotDirectoryException" in text or isinstance(
            error, IsADirectoryError | NotADirectoryError
        ):
            return ConfigError(
                "hdfs.bad_path",
                where,
                fix="Name a folder where a folder is meant, and a file where a file is.",
                config_path="path",
            )
        return _unreachable(where)


_WANTS_KERBEROS: Final = (
    "authentication is not enabled",
    "NoSASLMechanism",
    "GSSAPIError",
    "SASLError",
)
_QUOTA: Final = ("QuotaExceededException", "NSQuotaExceeded", "DSQuotaExceeded")


def _unreachable(text: str) -> RetriableError:
    return RetriableError(
        "hdfs.unreachable",
        text,
        fix="Check `path`, `hdfs.namenodes` and the network; it is tried again.",
        config_path="path",
    )


def _answer(
    call: Callable[[], Any], answer: queue.SimpleQueue[tuple[Any, BaseException | None]]
) -> None:
    try:
        answer.put((call(), None))
    except BaseException as error:  # noqa: BLE001 - raised where it is waited for
        answer.put((None, error))


def _end_calls() -> None:
    until = time.monotonic() + _END_WITHIN
    for caller in list(_left_behind):
        caller.join(max(0.0, until - time.monotonic()))


atexit.register(_end_calls)


def _client_type() -> Any:
    """Return the type of clients of the library.

    Raises:
        ConfigError: `hdfs.not_installed`.
    """
    try:
        from hdfs_native import Client  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(
            "hdfs.not_installed",
            "the library that speaks to HDFS is not installed",
            fix="Install it on all workers: pip install 'penstock[hdfs]'.",
            config_path="path",
        ) from error
    return Client


def _be_user(user: str) -> None:
    """Let connections of this process be of a user. Two at once would mix them up.

    Raises:
        ConfigError: `hdfs.other_user`.
    """
    with _lock:
        others = sorted(other for other in _users if other != user)
        if others:
            raise ConfigError(
                "hdfs.other_user",
                f"this process talks to HDFS as {others[0] or 'its own user'!r} now, and cannot "
                f"as {user or 'its own user'!r} at the same time",
                fix="Give all connectors of HDFS on a worker the same `hdfs.user`.",
                config_path="hdfs.user",
            )
        if user:
            os.environ[_USER] = user
        _users[user] = _users.get(user, 0) + 1


def _leave_user(user: str) -> None:
    with _lock:
        _users[user] -= 1
        if not _users[user]:
            del _users[user]
            if user:
                os.environ.pop(_USER, None)
