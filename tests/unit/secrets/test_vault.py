"""References to Vault, over HTTP as Vault speaks it (`support/vault.py` is a fake of it)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.model.errors import ConfigError, PenstockError, RetriableError
from penstock.secrets.provider_settings import create_secrets, parse_provider_settings
from penstock.secrets.resolution import ResolvedReferences, Secrets
from support.certificates import Authority
from support.processes import free_ports
from support.vault import ROLE, ROOT, SECRET_ID, Vault

PASSWORD = "canary-of-vault"


@pytest.fixture
def vault() -> Iterator[Vault]:
    """A Vault with a secret in each of its engines."""
    with Vault() as vault:
        vault.secrets["", "secret/data/app/db"] = {"user": "app", "password": PASSWORD}
        vault.secrets["", "kv/app/db"] = {"password": "of-version-1"}
        yield vault


def secrets(address: str, **params: str | Path | int) -> Secrets:
    """Return the secrets of a worker whose file has these parameters of the provider."""
    given = {"token": ROOT, "address": address, **params}
    start = "config.providers.vault.param."
    config = {f"{start}{key.replace('_', '.')}": str(value) for key, value in given.items()}
    if "token_file" in params or "role_id" in params:
        del config[f"{start}token"]
    return create_secrets(parse_provider_settings(["vault"], config))


def resolved(found: Secrets, *configs: dict[str, str]) -> list[ResolvedReferences]:
    """Resolve configurations, one after the other."""

    async def resolve() -> list[ResolvedReferences]:
        try:
            return [await found.resolve(config) for config in configs]
        finally:
            await found.close()

    return asyncio.run(resolve())


def value(found: Secrets, reference: str) -> str:
    """Return what a reference stands for."""
    (one,) = resolved(found, {"x": reference})
    return one.config["x"]


def failure(found: Secrets, reference: str = "${vault:app/db:password}") -> PenstockError:
    """Return the error of a reference; no secret may be in it."""
    with pytest.raises(PenstockError) as caught:
        value(found, reference)
    shown = repr(caught.value.diagnostic) + repr(caught.value)
    assert all(secret not in shown for secret in (PASSWORD, ROOT, SECRET_ID))
    assert caught.value.diagnostic.config_path == "x"
    assert caught.value.diagnostic.fix
    return caught.value


def test_keys_of_a_secret_are_read_by_one_call(vault: Vault) -> None:
    config = {"u": "${vault:app/db:user}", "p": "<${vault:app/db:password}>", "z": "1"}
    (found,) = resolved(secrets(vault.url), config)
    assert dict(found.config) == {"u": "app", "p": f"<{PASSWORD}>", "z": "1"}
    assert (found.reference_keys, found.ttl_s) == ({"u", "p"}, 300.0)
    assert [(one.method, one.path, one.token) for one in vault.asked] == [
        ("GET", "/v1/secret/data/app/db", ROOT)
    ]


def test_an_engine_of_version_1_has_no_data_in_its_paths(vault: Vault) -> None:
    params = {"mount": "kv", "engine_version": 1}
    assert value(secrets(vault.url, **params), "${vault:app/db:password}") == "of-version-1"
    wrong = secrets(vault.url, mount="kv")
    assert failure(wrong).code == "secrets.not_found"


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        ("", ""),
        (5432, "5432"),
        (True, "true"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ("ünï\n\"'${vault:app/db:user}", "ünï\n\"'${vault:app/db:user}"),
    ],
)
def test_values_are_texts_and_others_are_json(vault: Vault, kept: Any, shown: str) -> None:
    """A value is not looked at again: there is no nesting."""
    vault.secrets["", "secret/data/app/db"] = {"password": kept}
    assert value(secrets(vault.url), "${vault:app/db:password}") == shown


def test_what_is_not_there_is_not_found(vault: Vault) -> None:
    vault.secrets["", "secret/data/deleted"] = None
    vault.secrets["", "secret/data/empty"] = {"password": None}
    for path in ("app/other:password", "app/db:passwort", "deleted:password", "empty:password"):
        error = failure(secrets(vault.url), f"${{vault:{path}}}")
        assert (error.code, isinstance(error, ConfigError)) == ("secrets.not_found", True)


@pytest.mark.parametrize("path", ["../sys/seal", "a//b", "a?b=c", "a%2fb", "a/./b", " "])
def test_a_path_that_leads_elsewhere_is_never_asked_for(vault: Vault, path: str) -> None:
    assert failure(secrets(vault.url), f"${{vault:{path}:key}}").code == "secrets.refused"
    assert vault.asked == []


def test_a_namespace_has_secrets_of_its_own(vault: Vault) -> None:
    vault.secrets["team-a", "secret/data/app/db"] = {"password": "of-team-a"}
    found = secrets(vault.url, namespace="team-a")
    assert value(found, "${vault:app/db:password}") == "of-team-a"
    assert failure(secrets(vault.url, namespace="team-b")).code == "secrets.not_found"


def test_a_token_that_is_not_good_is_refused(vault: Vault) -> None:
    error = failure(secrets(vault.url, token="s.other"))
    assert (error.code, isinstance(error, ConfigError)) == ("secrets.refused", True)
    assert len(vault.asked) == 1


def test_a_token_in_a_file_is_read_each_time(vault: Vault, tmp_path: Path) -> None:
    """An agent of Vault's writes it anew."""
    file = tmp_path / "token"
    file.write_text("s.old\n")
    found = secrets(vault.url, token_file=file)
    config = {"x": "${vault:app/db:password}"}

    async def read() -> str:
        with pytest.raises(ConfigError, match=r"secrets\.refused"):
            await found.resolve(config)
        file.write_text(f"{ROOT}\n")
        try:
            return (await found.resolve(config)).config["x"]
        finally:
            await found.close()

    assert asyncio.run(read()) == PASSWORD
    file.unlink()
    error = failure(secrets(vault.url, token_file=file))
    assert (error.code, str(file) in str(error)) == ("secrets.unreachable", True)


@pytest.fixture
def role(vault: Vault, tmp_path: Path) -> Callable[[], Secrets]:
    """The secrets of a worker that has a role."""
    file = tmp_path / "secret-id"
    file.write_text(f"{SECRET_ID}\n")
    return lambda: secrets(vault.url, role_id=ROLE, secret_id_file=file)


def test_a_role_logs_in_once_and_again_when_its_token_has_ended(
    vault: Vault, role: Callable[[], Secrets]
) -> None:
    found = role()
    config = {"x": "${vault:app/db:password}"}

    async def read() -> None:
        for _ in range(3):
            await found.resolve(config)
        vault.tokens.clear()
        assert (await found.resolve(config)).config["x"] == PASSWORD
        await found.close()

    asyncio.run(read())
    ways = [one.path.rpartition("/")[2] for one in vault.asked]
    assert ways == ["login", "db", "db", "db", "db", "login", "db"]
    assert [one.namespace for one in vault.asked if one.method == "POST"] == ["", ""]


def test_a_role_without_a_right_asks_once_more_and_no_further(
    vault: Vault, role: Callable[[], Secrets], monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = (403, {"errors": ["permission denied"]})
    answered = vault._answered
    monkeypatch.setattr(
        vault, "_answered", lambda one: answered(one) if "login" in one.path else denied
    )
    assert failure(role()).code == "secrets.refused"
    assert [one.path.rpartition("/")[2] for one in vault.asked] == ["login", "db", "login", "db"]


def test_a_role_that_is_unknown_is_refused(vault: Vault, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("another")
    error = failure(secrets(vault.url, role_id=ROLE, secret_id_file=wrong))
    assert error.code == "secrets.refused"


def test_a_login_without_a_token_is_no_login(vault: Vault, role: Callable[[], Secrets]) -> None:
    vault.answer = (200, b'{"auth": null}')
    assert failure(role()).code == "secrets.unreachable"


def test_a_secret_with_a_lease_is_asked_for_again_before_it_ends(vault: Vault) -> None:
    """A database engine gives each reader a password of its own, for a while."""
    found = secrets(vault.url, mount="database", engine_version=1, ttl="1h")
    config = {"x": "${vault:creds/app:password}"}
    first, again = resolved(found, config, config)
    assert (first.ttl_s, again.ttl_s) == (40.0, 40.0)
    assert (first.config["x"], again.config["x"]) == ("made-1", "made-2")


@pytest.mark.parametrize(("ttl", "found"), [("90s", 90.0), ("0", None)])
def test_a_secret_without_a_lease_is_asked_for_after_the_ttl(
    vault: Vault, ttl: str, found: float | None
) -> None:
    (one,) = resolved(secrets(vault.url, ttl=ttl), {"x": "${vault:app/db:password}"})
    assert one.ttl_s == found


@pytest.mark.parametrize(
    "answer",
    [
        (503, b'{"errors": ["Vault is sealed"]}'),
        (500, b"canary-of-vault"),
        (429, b"{}"),
        (307, b""),
        (200, b"<html>canary-of-vault</html>"),
        (200, b"x" * (2 << 20)),
        (200, b"[]"),
        (200, b'{"data": "canary-of-vault"}'),
        (200, b'{"data": {"data": ["canary-of-vault"]}}'),
        (200, b'{"data": {"data": {"password": "x"}}, "lease_duration": "long"}'),
    ],
    ids=lambda one: f"{one[0]} {one[1][:24].decode()}",
)
def test_an_answer_that_is_none_is_asked_for_again(vault: Vault, answer: tuple[int, bytes]) -> None:
    vault.answer = answer
    error = failure(secrets(vault.url))
    assert (error.code, isinstance(error, RetriableError)) == ("secrets.unreachable", True)


def test_a_vault_that_is_not_there_is_asked_again() -> None:
    error = failure(secrets(f"http://127.0.0.1:{free_ports(1)[0]}"))
    assert (error.code, isinstance(error, RetriableError)) == ("secrets.unreachable", True)


def test_a_vault_is_known_by_its_certificate(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path / "ours"), Authority(tmp_path / "others")
    with Vault(ours.sign("localhost")) as vault:
        vault.secrets["", "secret/data/app/db"] = {"password": PASSWORD}
        reference = "${vault:app/db:password}"
        assert value(secrets(vault.url, authority=ours.ca), reference) == PASSWORD
        for found in (secrets(vault.url), secrets(vault.url, authority=others.ca)):
            error = failure(found)
            assert error.code == "secrets.unreachable"
            assert "CERTIFICATE_VERIFY_FAILED" in str(error)
        assert len(vault.asked) == 1, "no token is sent to who is not known"


@pytest.mark.parametrize("text", [None, "no certificate"])
def test_an_authority_that_cannot_be_read_is_named(
    vault: Vault, tmp_path: Path, text: str | None
) -> None:
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    error = failure(secrets(vault.url, authority=file))
    assert (error.code, str(file) in str(error)) == ("secrets.refused", True)
