"""The address and the body of a request for a position. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode

from penstock_connector import ConfigError
from penstock_net.http_source.config import PLACE, HttpSourceConfig
from penstock_net.web.address import address_of, joined, with_query


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: an address, and a body when it is asked by POST."""

    url: str
    body: bytes | None = None


def question(config: HttpSourceConfig, position: str) -> Question:
    """Return the request for a position; an empty one asks without."""
    pairs: dict[str, str] = {}
    if config.page_size_param:
        pairs[config.page_size_param] = str(config.page_size)
    if config.position_param and position:
        pairs[config.position_param] = position
    url = with_query(config.url.replace(PLACE, quote(position, safe="")), pairs)
    return Question(url, _body(config, position))


def at_link(config: HttpSourceConfig, link: str) -> Question:
    """Return the request for the next page by its full address."""
    return Question(link, _body(config, ""))


def _body(config: HttpSourceConfig, position: str) -> bytes | None:
    if config.method != "POST":
        return None
    escaped = json.dumps(position, ensure_ascii=False)[1:-1]  # as it stands inside of a JSON text
    return config.body.replace(PLACE, escaped).encode()


def full_link(config: HttpSourceConfig, base: str, link: str) -> str:
    """Return the next page's address: on the same server, and without what nobody may see.

    Raises:
        ConfigError: `http.other_origin`.
    """
    url = joined(base, link)
    before, _, query = url.partition("?")
    hidden = config.secret_query()
    kept = [(n, v) for n, v in parse_qsl(query, keep_blank_values=True) if n not in hidden]
    there, here = address_of(url, "next.pointer"), address_of(base)
    if there.origin != here.origin:
        raise ConfigError(
            "http.other_origin",
            f"the next page of {here.shown} is on another server: {there.shown}",
            fix="Credentials are not sent there; name that server in `url`, if it is meant.",
            config_path="next.pointer",
        )
    if len(kept) == len(parse_qsl(query, keep_blank_values=True)):
        return url
    return f"{before}?{urlencode(kept, quote_via=quote)}" if kept else before
