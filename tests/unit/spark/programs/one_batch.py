"""Runs one micro-batch through both kinds of plan: `one_batch.py FOLDER TICKET SCHEMA`.

The schema is in base64. Prints the version of Spark, then the reports, as JSON. It needs neither
pytest nor psutil.
"""

import asyncio
import base64
import json
import sys
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyspark

from penstock.model.errors import DataError
from penstock.model.step import Step
from penstock.model.ticket import Ticket
from penstock.spark.engine import Engine
from penstock.spark.settings import EngineSettings

UPPER = Step(where="id % 10 <> 7", select=(("id", "id"), ("name", "upper(name)")))


async def main(folder: Path, text: str, schema: pa.Schema) -> None:
    engine = Engine(EngineSettings(master="local[2,1]", slots=2, local_dir=folder))
    await engine.start()
    ticket = Ticket.from_json(text)
    found = []
    for steps in ([], [UPPER]):
        plan = engine.build("t", schema, steps, len(ticket.slots))
        found.append([asdict(report) for report in await engine.run(plan, ticket)])
    for step in (Step(select=(("x", "cast(name as int)"),)), Step(where="cast(name as int) > 0")):
        bad = await asyncio.to_thread(engine.build, "t", schema, [step], len(ticket.slots))
        try:
            await engine.run(bad, ticket)
        except DataError as error:
            found.append(error.code)
    print(json.dumps([pyspark.__version__, *found]), flush=True)
    await engine.stop()


if __name__ == "__main__":
    encoded = base64.b64decode(sys.argv[3])
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], pa.ipc.read_schema(pa.py_buffer(encoded))))
