"""Tokens of an OpenID provider: a real server tells its keys, real signatures are checked."""

from __future__ import annotations

import asyncio
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from penstock.gateway.access import tokens as tokens_room
from penstock.gateway.access.tokens import KEYS_TTL_S, MAX_STALE_KEYS_S, OidcProvider, TokenVerifier
from penstock.gateway.access.users import Level
from penstock.model.errors import AuthError, RetriableError
from support.issuer import Issuer
from support.web import Reply, WebServer


@pytest.fixture(scope="module")
def issuer():
    with Issuer() as issuer:
        yield issuer


def person(issuer, token, **more):
    async def run():
        tokens = TokenVerifier(OidcProvider(issuer.url, "penstock", **more))
        try:
            return await tokens.identify(token)
        finally:
            await tokens.close()

    return asyncio.run(run())


def test_a_good_token_is_somebody(issuer):
    found = person(issuer, issuer.token())
    assert (found.name, found.level("orders-1")) == ("ada", Level.EDITOR)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1},
        {"exp": None},
        {"aud": "others"},
        {"aud": None},
        {"iss": "https://elsewhere.example"},
        {"sub": None},
        {"penstock": "editor"},
        {"penstock": ["owner"]},
        {"nbf": int(time.time()) + 3600},
        {"kid": "unknown"},
    ],
)
def test_a_token_that_is_not_for_us_is_refused(issuer, claims):
    with pytest.raises(AuthError, match=r"access\.token"):
        person(issuer, issuer.token(**claims))


@pytest.mark.parametrize("follow", [False, True])
def test_a_provider_that_leads_elsewhere_is_not_followed(issuer, monkeypatch, follow):
    """The twin, a client that follows redirects, takes the keys of the other server."""
    if follow:
        client = tokens_room.httpx.AsyncClient
        monkeypatch.setattr(
            tokens_room.httpx,
            "AsyncClient",
            lambda **keys: client(**{**keys, "follow_redirects": True}),
        )
    web = WebServer()
    web.answer = lambda asked: Reply(status=302, headers={"Location": issuer.url + asked.path})
    token = issuer.token(iss=web.url)
    before = issuer.asked
    try:
        if follow:
            assert person(web, token).name == "ada"
        else:
            with pytest.raises(RetriableError, match=r"access\.provider"):
                person(web, token)
    finally:
        web.close()
    assert (issuer.asked > before) == follow


def test_a_token_that_somebody_else_signed_is_refused(issuer):
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    with pytest.raises(AuthError):
        person(issuer, issuer.token(key=other))


def test_no_signature_and_a_shared_secret_are_refused(issuer):
    """Whoever knows the public key could make these."""
    unsigned = jwt.encode({"sub": "ada"}, None, "none", headers={"kid": "one"})
    shared = issuer.token(key="0" * 64, algorithm="HS256")
    for token in (unsigned, shared, "", "a.b.c", "x" * 5000):
        with pytest.raises(AuthError, match=r"access\.token"):
            person(issuer, token)


def test_keys_are_kept_and_made_up_tokens_ask_seldom(issuer):
    async def run():
        tokens = TokenVerifier(OidcProvider(issuer.url, "penstock"))
        before = issuer.asked
        for _ in range(20):
            await tokens.identify(issuer.token())
            with pytest.raises(AuthError):
                await tokens.identify(issuer.token(kid="made up"))
        await tokens.close()
        return issuer.asked - before

    assert asyncio.run(run()) == 2, "the document and the keys, once"


def test_a_provider_that_is_away_is_no_refusal():
    class Away:
        url = "http://127.0.0.1:1"

    token = jwt.encode({"sub": "a"}, "0" * 64, "HS256", headers={"kid": "one"})
    with pytest.raises(RetriableError, match=r"access\.provider"):
        person(Away, token)


def test_an_algorithm_that_is_not_the_keys_is_refused(issuer):
    key = ec.generate_private_key(ec.SECP256R1())
    token = issuer.token(key=key, algorithm="ES256")
    with pytest.raises(AuthError, match=r"access\.token"):
        person(issuer, token)


def test_a_provider_that_goes_away_locks_nobody_out(monkeypatch):
    """Keys that are known count for a while; the provider is asked again, and seldom."""
    now = [1000.0]
    monkeypatch.setattr(tokens_room.time, "monotonic", lambda: now[0])
    issuer = Issuer()

    async def run():
        tokens = TokenVerifier(OidcProvider(issuer.url, "penstock"))
        token = issuer.token()
        await tokens.identify(token)
        issuer.server.shutdown()
        issuer.server.server_close()
        now[0] += KEYS_TTL_S + 1
        found = await asyncio.gather(*(tokens.identify(token) for _ in range(20)))
        assert {one.name for one in found} == {"ada"}
        with pytest.raises(RetriableError, match=r"access\.provider"):
            await tokens.identify(issuer.token(kid="new"))
        now[0] += MAX_STALE_KEYS_S
        with pytest.raises(RetriableError, match=r"access\.provider"):
            await tokens.identify(token)
        await tokens.close()

    asyncio.run(run())
