"""A plugin that hangs when it is asked what it is: nobody ever learns its keys."""

import asyncio
from typing import Any

from penstock_connector import Source, _control, serve


class Mute(Source):
    """Has no keys that anybody heard of."""

    name = "mute-source"


async def describe(*_: Any) -> None:
    """Never answer."""
    await asyncio.Event().wait()


if __name__ == "__main__":
    _control.PluginService.Describe = describe
    serve(Mute)
