"""A process with an engine, for tests that kill it: `engine_host.py FOLDER [TICKET]`.

Prints the process id of its JVM when it is warm. With the read side of a ticket, as JSON, it then
runs a micro-batch of 1000 rows, and says so before.
"""

import asyncio
import sys
from pathlib import Path

from penstock.model.ticket import SlotTicket, Ticket
from penstock.spark.engine import Engine
from penstock.spark.settings import EngineSettings


async def main(folder: Path, read: dict[str, object] | None) -> None:
    settings = EngineSettings(master="local[1,1]", slots=1, local_dir=folder)
    engine = Engine(settings)
    await engine.start()
    print(engine._jvm.process.pid, flush=True)
    if read is None:
        await asyncio.Event().wait()
    import base64

    import pyarrow as pa

    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(read["schema"])))
    plan = engine.build("t", schema, [], 1)
    slot = SlotTicket(0, 1000, read, {"kind": "discard"})
    print("running", flush=True)
    await engine.run(plan, Ticket("t", 1, 1, (slot,)))


if __name__ == "__main__":
    import json

    asyncio.run(main(Path(sys.argv[1]), json.loads(sys.argv[2]) if len(sys.argv) > 2 else None))
