"""Whether each member of etcd that is named can be reached, answers, and lets this user in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.cli.looks.found import Found, refused
from penstock.cluster.settings import etcd_settings
from penstock.etcd import Etcd, EtcdSettings
from penstock.model.errors import ConfigError, PenstockError
from penstock.rpc.deadlines import deadline

WITHIN: Final = 10.0
"""Seconds for all that a member is asked."""

_PLACE: Final = "etcd.endpoints"


def members(values: Mapping[str, Any]) -> list[Found]:
    """Return how each member is."""
    try:
        settings = etcd_settings(values)
    except ConfigError as error:
        return [refused("etcd", error, _PLACE)]
    return asyncio.run(_each(settings))


async def _each(settings: EtcdSettings) -> list[Found]:
    alone = [replace(settings, endpoints=(one,)) for one in settings.endpoints]
    return list(await asyncio.gather(*map(_one, alone)))


async def _one(settings: EtcdSettings) -> Found:
    what = f"etcd {settings.endpoints[0]}"
    try:
        async with deadline("doctor.etcd", WITHIN):
            client = await Etcd.connect(replace(settings, start_for=settings.try_for))
            try:
                # what only a member that has a leader can answer, and every service may read
                await client.get(f"{client.prefix}cluster")
                return Found(what, ok=True, found=f"version {await client.version()}, answers")
            finally:
                await client.close()
    except PenstockError as error:
        return refused(what, error, _PLACE)
