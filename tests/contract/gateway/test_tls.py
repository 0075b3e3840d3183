"""A gateway that speaks TLS: its certificate is checked, replaced, and asked for."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import sys

import httpx
import pytest

from penstock.cli.__main__ import main
from penstock.gateway import listeners
from penstock.gateway.access.guard import Guard
from penstock.gateway.app import build_app
from penstock.gateway.http_server import serve
from penstock.gateway.listeners import CertificateFiles, Listener
from penstock.model.errors import ConfigError
from penstock_kit.testing import wait_until
from support.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def served(gateway, authority, tmp_path):
    """Answer over TLS as `localhost`; returns the URL and the folder of what is shown."""
    entered = []

    def start(clients=None):
        certificate, key = authority.sign("localhost")
        for source, name in ((certificate, "cert.pem"), (key, "key.pem")):
            shutil.copy(source, tmp_path / name)
        shown = CertificateFiles(tmp_path / "cert.pem", tmp_path / "key.pem", clients)

        async def enter():
            one = serve(
                build_app(gateway.clients, "t", Guard()), [Listener("127.0.0.1:0", True)], shown
            )
            entered.append(one)
            (url,) = await one.__aenter__()
            return url

        return gateway.run(enter).replace("127.0.0.1", "localhost")

    yield start
    for one in entered:
        gateway.run(lambda one=one: one.__aexit__(None, None, None))


def trusting(authority, *pair):
    context = ssl.create_default_context(cafile=authority.ca)
    if pair:
        context.load_cert_chain(*pair)
    return context


def test_who_trusts_the_authority_is_answered(served, authority):
    url = served()
    assert url.startswith("https://")
    assert httpx.get(f"{url}/connectors", verify=trusting(authority)).status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/connectors")
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"{url.replace('https', 'http')}/connectors")


def test_the_command_line_checks_it_too(served, authority, capsys):
    url = served()
    assert main(["connector", "list", "--server", url, "--ca", str(authority.ca)]) == 0
    assert main(["connector", "list", "--server", url]) == 1
    assert main(["connector", "list", "--server", url, "--ca", "/none"]) == 2
    assert "[server.ca]" in capsys.readouterr().err


def test_clients_show_a_certificate_where_they_must(served, authority):
    url = served(clients=authority.ca)
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"{url}/connectors", verify=trusting(authority))
    shown = trusting(authority, *authority.sign("tool"))
    assert httpx.get(f"{url}/connectors", verify=shown).status_code == 200


def test_a_certificate_is_replaced_while_it_runs(served, authority, tmp_path, monkeypatch):
    monkeypatch.setattr(listeners, "RELOAD_INTERVAL_S", 0.05)
    url = served()
    other = Authority(tmp_path / "other")
    (tmp_path / "cert.pem").write_text("half of a file")

    def answers(by):
        try:
            return httpx.get(f"{url}/connectors", verify=trusting(by)).status_code == 200
        except httpx.HTTPError:
            return False

    assert answers(authority), "what cannot be read changes nothing"
    certificate, key = other.sign("localhost")
    shutil.copy(key, tmp_path / "key.pem")
    shutil.copy(certificate, tmp_path / "cert.pem")
    wait_until(lambda: answers(other), 120, "the new certificate to be shown")


def test_files_that_do_not_fit_while_they_are_replaced_change_nothing(
    served, authority, tmp_path, monkeypatch, caplog
):
    """A look between the two writes: the new certificate, and still the old key."""
    monkeypatch.setattr(listeners, "RELOAD_INTERVAL_S", 0.05)
    url = served()
    shutil.copy(authority.sign("localhost")[0], tmp_path / "cert.pem")
    refused = "the new certificate is not used"
    wait_until(lambda: refused in caplog.text, 120, "the files to be checked")
    assert httpx.get(f"{url}/connectors", verify=trusting(authority)).status_code == 200


def test_an_authority_of_clients_is_withdrawn(served, authority, tmp_path, monkeypatch):
    monkeypatch.setattr(listeners, "RELOAD_INTERVAL_S", 0.05)
    other = Authority(tmp_path / "other")
    clients = tmp_path / "clients.pem"
    shutil.copy(authority.ca, clients)
    url = served(clients=clients)
    shown = trusting(authority, *authority.sign("tool"))
    assert httpx.get(f"{url}/connectors", verify=shown).status_code == 200
    shutil.copy(other.ca, clients)

    def refused():
        try:
            httpx.get(f"{url}/connectors", verify=shown)
        except httpx.HTTPError:
            return True
        return False

    wait_until(refused, 120, "the old authority to be withdrawn")
    newer = trusting(authority, *other.sign("tool"))
    assert httpx.get(f"{url}/connectors", verify=newer).status_code == 200


def test_files_that_do_not_belong_together_are_named(authority, tmp_path):
    one, other = authority.sign("one"), authority.sign("two")
    for pair in ((one[0], other[1]), (tmp_path / "none", one[1])):
        with pytest.raises(ConfigError, match=r"tls\.file"):
            CertificateFiles(*pair).create_context()


def test_a_hash_is_made_of_a_password():
    def run(text):
        command = [sys.executable, "-m", "penstock.cli", "password"]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    good, short = run("correct horse battery\n"), run("short\n")
    assert (good.returncode, good.stdout.startswith("scrypt$")) == (0, True)
    assert (short.returncode, "[access.password]" in short.stderr) == (2, True)
