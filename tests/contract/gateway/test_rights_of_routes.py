"""Row X2 of the faults, over REST: each route, asked as each person (`GRANTS`), of a connector that
the person's grants name and of one that they do not.
"""

from __future__ import annotations

import json
import re

import pytest

from penstock.gateway.access.users import (
    OPEN_ROUTES,
    REQUIRED_LEVELS,
    Level,
    Principal,
    parse_grants,
)
from support.people import GRANTS
from support.surface import NAMED_IN_BODY

CONNECTORS = ("orders-none", "bills-none")
"""No such connectors: who is let through learns that, and changes nothing."""

PLACES = {"task": "0", "version": "1", "plugin": "none", "logger": "penstock.none"}
LEVEL = {"level": "INFO"}


def asked(route, connector):
    """Return a request of a route: method, path, body."""
    method, path = route.split()
    names = PLACES | {"connector": connector, "worker": "none"}
    path = re.sub(r"{(\w+)}", lambda found: names[found[1]], path)
    body = {"name": connector, "config": {"connector.class": "none"}}
    if "rehearse" in path:
        body |= {"rows": []}
    if "plugins" in path or "config" in path:
        body = {"name": connector}
    return method, path, LEVEL if "loggers" in path else body


def may(person, route, connector):
    """Tell what the table and the grants say: this is the rule, written once more."""
    needed, who = REQUIRED_LEVELS[route], Principal(person, parse_grants(GRANTS[person]))
    if "{connector}" in route or route in NAMED_IN_BODY:
        return who.level(connector) >= needed
    return (who.level() if needed is Level.ADMIN else who.highest_level()) >= needed


def ask(client, route, connector):
    """Send a request; returns its status and its code."""
    method, path, body = asked(route, connector)
    content = b"" if method == "GET" else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if content else {}
    answer = client.request(method, path, content=content, headers=headers)
    return answer.status_code, answer.json().get("code") if answer.status_code >= 400 else ""


@pytest.mark.parametrize("route", sorted(REQUIRED_LEVELS))
def test_each_person_is_let_through_where_the_grants_say_so_and_nowhere_else(who, route):
    assert ask(who(), route, "orders-none") == (401, "access.unauthenticated")
    for person in GRANTS:
        for connector in CONNECTORS:
            status, code = ask(who(person), route, connector)
            refused = (status, code) == (403, "access.denied")
            assert refused != may(person, route, connector), (person, connector, status, code)
            assert status < 500, (person, connector, status, code)


def test_the_rule_tells_persons_apart():
    """Else the test above would be of nothing."""
    for person, let_through in (("nick", 0), ("adam", len(REQUIRED_LEVELS))):
        assert sum(may(person, route, "orders-none") for route in REQUIRED_LEVELS) == let_through
    counts = {
        (person, name): sum(may(person, route, name) for route in REQUIRED_LEVELS)
        for person in ("vera", "otto", "edda")
        for name in CONNECTORS
    }
    assert len(set(counts.values())) >= 4
    assert counts["edda", "orders-none"] > counts["edda", "bills-none"]
    assert not OPEN_ROUTES & REQUIRED_LEVELS.keys()
