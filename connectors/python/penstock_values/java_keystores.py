"""Java's own keystores, JKS and JCEKS, as PKCS12: by `keytool`, which every Java has.

    if java_form(content):
        content, password = convert_keystore(content, "changeit")

The file is copied to a private folder, which is removed again. Passwords are in the environment of
`keytool` or are written to it, and never on its command line.
"""

from __future__ import annotations

import functools
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

_FORMS: Final = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
_TIMEOUT_S: Final = 20.0
"""A conversion takes a second or two, most of it the start of Java. The host waits 30 s for a task
that opens, and must hear what it waited for.
"""

_JVMS: Final = Path("/usr/lib/jvm")
"""Where distributions of Linux install Java: a plugin's process has no JAVA_HOME."""

_INHERITED: Final = ("PATH", "JAVA_HOME", "HOME", "LD_LIBRARY_PATH")
_SOURCE, _TARGET = "KEYTOOL_SOURCE_PASSWORD", "KEYTOOL_TARGET_PASSWORD"
_JAVA: Final = ("-J-Duser.language=en", "-J-Xmx64m", "-J-XX:+UseSerialGC")
"""What `keytool` prints is searched for words of English."""

_WRONG_KEY: Final = ("Cannot recover key", "Too many failures", "UnrecoverableKeyException")


class KeytoolMissingError(Exception):
    """There is no `keytool`."""


class WrongPasswordError(Exception):
    """The password of a store is wrong, or that of the key in it.

    Attributes:
        is_of_key: Whether it is that of the key.
    """

    def __init__(self, *, is_of_key: bool) -> None:
        super().__init__(
            "the password of its key is wrong" if is_of_key else "its password is wrong"
        )
        self.is_of_key = is_of_key


class ConversionFailedError(Exception):
    """`keytool` could not convert the store, or not in time."""


def java_form(content: bytes) -> str:
    """Return the form of a store that only Java reads: JKS or JCEKS; else an empty text."""
    return _FORMS.get(content[:4], "")


@functools.lru_cache(maxsize=8)  # each client of a task reads its store, and Java starts slowly
def convert_keystore(content: bytes, password: str, key_password: str = "") -> tuple[bytes, str]:
    """Return a JKS or JCEKS store as PKCS12, and its new password.

    Args:
        content: The store.
        password: Its password; empty: what it contains is not compared with its checksum.
        key_password: The password of its keys; empty: that of the store.

    Raises:
        KeytoolMissingError: there is no Java.
        WrongPasswordError: one of the passwords is wrong.
        ConversionFailedError: anything else.
    """
    tool = _find_keytool()
    with tempfile.TemporaryDirectory(prefix="penstock-keytool-") as made:
        folder = Path(made)  # of this user alone
        source, target = folder / "source", folder / "target"
        source.write_bytes(content)
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment |= {"LC_ALL": "C.UTF-8", _TARGET: secrets.token_urlsafe(24)}
        command = [
            tool, *_JAVA, "-importkeystore", "-noprompt",
            "-srckeystore", str(source), "-srcstoretype", java_form(content),
            "-destkeystore", str(target), "-deststoretype", "PKCS12",
            "-deststorepass:env", _TARGET,
        ]  # fmt: skip
        answers = [key_password] if key_password else []
        if password:
            environment[_SOURCE] = password
            command += ["-srcstorepass:env", _SOURCE]
        else:
            answers.insert(0, "")
        _run(command, environment, "".join(f"{one}\n" for one in answers))
        try:
            return target.read_bytes(), environment[_TARGET]
        except OSError:
            raise ConversionFailedError("it has no certificate and no key") from None


def _find_keytool() -> str:
    home = os.environ.get("JAVA_HOME")
    folders = [f"{home}/bin"] if home else []
    folders += [os.environ.get("PATH", ""), *map(str, sorted(_JVMS.glob("*/bin")))]
    found = shutil.which("keytool", path=os.pathsep.join(folders))
    if found is None:
        raise KeytoolMissingError
    return found


def _run(command: list[str], environment: dict[str, str], answers: str) -> None:
    """Run `keytool`. It prompts for the password of a key that differs from that of its store."""
    try:
        done = subprocess.run(
            command,
            env=environment,
            input=answers.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConversionFailedError(
            f"keytool, which converts it to PKCS12, has not ended in {_TIMEOUT_S:g} s"
        ) from None
    except OSError as error:
        raise ConversionFailedError(f"keytool cannot run: {error.strerror}") from None
    if not done.returncode:
        return
    text = done.stdout.decode("utf-8", "replace")
    if "password was incorrect" in text:
        raise WrongPasswordError(is_of_key=False)
    if any(words in text for words in _WRONG_KEY):
        raise WrongPasswordError(is_of_key=True)
    why = next((one for one in text.splitlines() if "error:" in one), "it does not say why")
    raise ConversionFailedError(f"keytool cannot convert it: {why[:300]}")
