"""What `keytool` is given, and what is said when it fails."""

import os
import stat
from pathlib import Path

import pytest

from penstock_values import java_keystores
from penstock_values.java_keystores import (
    ConversionFailedError,
    KeytoolMissingError,
    WrongPasswordError,
    convert_keystore,
    java_form,
)

JKS = b"\xfe\xed\xfe\xed\0\0\0\2"
STORE, KEY = "geheim-of-store", "geheim-of-key"


@pytest.fixture(autouse=True)
def _nothing_remembered():
    convert_keystore.cache_clear()
    yield
    convert_keystore.cache_clear()


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Puts a script in the place of `keytool`."""

    def install(script):
        path = tmp_path / "bin" / "keytool"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    return install


NOTE = """
printf '%s\\n' "$@" > {folder}/arguments
env > {folder}/environment
cat > {folder}/input
while [ "$1" != -destkeystore ]; do shift; done
stat -c %a "$(dirname "$2")" > {folder}/mode
dirname "$2" > {folder}/where
echo converted > "$2"
"""


def test_passwords_are_not_on_the_command_line_and_the_copy_is_removed(tool, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_ANOTHER", "canary")
    tool(NOTE.format(folder=tmp_path))
    content, password = convert_keystore(JKS, STORE, KEY)
    seen = {one: (tmp_path / one).read_text() for one in ("arguments", "environment", "input")}
    assert content == b"converted\n"
    assert not any(one in seen["arguments"] for one in (STORE, KEY, password))
    assert f"={STORE}\n" in seen["environment"]
    assert f"={password}\n" in seen["environment"]
    assert "canary" not in seen["environment"]
    assert seen["input"] == f"{KEY}\n"
    assert (tmp_path / "mode").read_text().strip() == "700"
    assert not Path((tmp_path / "where").read_text().strip()).exists()


def test_a_store_without_a_password_is_read_without_its_checksum(tool, tmp_path):
    tool(NOTE.format(folder=tmp_path))
    convert_keystore(JKS, "", KEY)
    assert (tmp_path / "input").read_text() == f"\n{KEY}\n"
    assert "-srcstorepass" not in (tmp_path / "arguments").read_text()


def test_a_store_is_converted_once_for_all_clients(tool, tmp_path):
    tool(f"echo x >> {tmp_path}/runs\n{NOTE.format(folder=tmp_path)}")
    assert convert_keystore(JKS, STORE, KEY) == convert_keystore(JKS, STORE, KEY)
    assert (tmp_path / "runs").read_text() == "x\n"


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        ("echo 'error: Keystore was tampered with, or password was incorrect'; exit 1",
         WrongPasswordError, "its password is wrong"),
        ("echo 'error: java.security.UnrecoverableKeyException: Cannot recover key'; exit 1",
         WrongPasswordError, "the password of its key is wrong"),
        ("echo 'keytool error: java.io.IOException: Invalid keystore format'; exit 1",
         ConversionFailedError, "Invalid keystore format"),
        ("exit 3", ConversionFailedError, "it does not say why"),
        ("exit 0", ConversionFailedError, "no certificate and no key"),
        ("exec sleep 60", ConversionFailedError, "keytool, which converts it to PKCS12, has not"),
    ],
)  # fmt: skip
def test_each_failure_is_told_by_what_it_is(tool, monkeypatch, script, kind, words):
    monkeypatch.setattr(java_keystores, "_TIMEOUT_S", 0.3 if "sleep" in script else 20)
    tool(script)
    with pytest.raises(kind, match=words) as caught:
        convert_keystore(JKS, STORE, KEY)
    assert "geheim" not in str(caught.value)


def test_a_keytool_that_cannot_be_run_is_told(tool, tmp_path, monkeypatch):
    tool("exit 0")
    (tmp_path / "bin" / "keytool").write_bytes(b"\x7fELF, but not really")
    with pytest.raises(ConversionFailedError, match="keytool cannot run"):
        convert_keystore(JKS, STORE)
    (tmp_path / "bin" / "keytool").chmod(stat.S_IRUSR)
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setattr(java_keystores, "_JVMS", tmp_path)
    with pytest.raises(KeytoolMissingError):
        convert_keystore(JKS, STORE)


def test_the_forms_of_java_are_known_by_their_first_bytes():
    assert [java_form(one) for one in (JKS, b"\xce\xce\xce\xce\0", b"-----BEGIN", b"")] == [
        "JKS", "JCEKS", "", "",
    ]  # fmt: skip
