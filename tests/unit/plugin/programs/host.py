"""A host that starts a scripted plugin and then does nothing, so that a test can kill it."""

import asyncio
import sys
from pathlib import Path

from penstock.plugin.catalog.manifest import ConnectorEntry, Kind, Manifest
from penstock.plugin.catalog.registry import Registry
from penstock.plugin.host import PluginHost


async def main(runtime_dir: str, *modes: str) -> None:
    script = Path(__file__).parent.parent / "plugins" / "scripted.py"
    manifest = Manifest(
        "scripted",
        "1",
        ("{python}", str(script), *modes),
        script.parent,
        (ConnectorEntry("source", Kind.SOURCE),),
    )
    host = PluginHost(Registry([manifest]), Path(runtime_dir))
    await host.acquire("source")
    print("started", flush=True)
    await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
