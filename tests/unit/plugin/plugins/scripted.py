"""A plugin for tests that does what its arguments and configurations say, good or bad.

No SDK: raw grpc.aio, as a stranger would write it. Modes are words of the command line; a source
plays the JSON list in its configuration key `script`: frames, or orders such as {"crash": 9}.
"""

# ruff: noqa: N802 - gRPC names the methods

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import grpc.aio
import pyarrow as pa
from google.protobuf import json_format
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import connector_service_pb2_grpc as connector_grpc
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import plugin_service_pb2_grpc as plugin_grpc
from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.connector.v1 import sink_service_pb2_grpc as sink_grpc
from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.api.connector.v1 import source_service_pb2_grpc as source_grpc
from penstock.api.error.v1 import diagnostic_pb2
from penstock.api.record.v1 import record_pb2

MODES = set(sys.argv[1:])
FOLDER = os.environ["PLUGIN_UNIX_SOCKET_DIR"]
SOCKET = f"{FOLDER}/s"
LINE = f"1|1|unix|{SOCKET}|grpc|"


def say(text: str, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


def forever() -> None:
    while True:
        signal.pause()


EATEN: list[bytes] = []
LINES = {
    "wrong_core": f"2|1|unix|{SOCKET}|grpc|",
    "wrong_protocol": f"1|7|unix|{SOCKET}|grpc|",
    "tcp": "1|1|tcp|127.0.0.1:1234|grpc|",
    "netrpc": f"1|1|unix|{SOCKET}|netrpc|",
    "foreign": "1|1|unix|/run/docker.sock|grpc|",
    "dotdot": f"1|1|unix|{FOLDER}/../s|grpc|",
    "tls": f"1|1|unix|{SOCKET}|grpc|MIIBcert",
    "bad_line": "1|1|unix",
    "no_server": LINE,
}


def eat(mebibytes: int) -> None:
    """Have so much memory, really: every page is written."""
    EATEN.append(b"x" * (mebibytes << 20))


def feed_a_child(mebibytes: int) -> None:
    """Have a child that has so much."""
    code = f"import signal; x = b'x' * ({mebibytes} << 20); signal.pause()"
    subprocess.Popen([sys.executable, "-c", code])


def before_serving() -> None:
    """Misbehave in ways that need no server."""
    if "ignore_term" in MODES:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "child" in MODES:  # a grandchild of the host, which inherits the pipes
        subprocess.Popen([sys.executable, "-c", "import signal\nwhile 1: signal.pause()"])
    if "exit" in MODES:
        sys.stderr.write("Traceback: no module named 'nothing'\n")
        sys.exit(3)
    if "die" in MODES:
        os.kill(os.getpid(), signal.SIGKILL)
    for mode in MODES & LINES.keys():
        say(LINES[mode])
    if "no_newline" in MODES:
        say(LINE, end="")
    if "closes_stdout" in MODES:
        os.close(1)
    if "deaf" in MODES:  # listens, and never answers
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(SOCKET)
        listener.listen()
        say(LINE)
        forever()
    if MODES & {"silent", "no_newline", "closes_stdout", *LINES}:
        forever()


async def refuse(context, code: str, message: str, kind: int = 2) -> None:
    """End a call as the SDK does: a diagnostic in the trailing metadata."""
    diagnostic = diagnostic_pb2.Diagnostic(
        code=code, message=message, error_class=kind, severity=3, fix="Do it right."
    )
    await context.abort(
        grpc.StatusCode.INVALID_ARGUMENT,
        message,
        (("penstock-diagnostic-bin", diagnostic.SerializeToString()),),
    )


class Plugin(plugin_grpc.PluginServiceServicer):
    async def Describe(self, request, context):
        if "hang_describe" in MODES:
            await asyncio.Event().wait()
        kind = plugin_pb.KIND_SINK if "other_kind" in MODES else plugin_pb.KIND_SOURCE
        return plugin_pb.DescribeResponse(
            name="scripted",
            version="1",
            sdk="none",
            connectors=[
                plugin_pb.ConnectorSpec(
                    name="source",
                    kind=kind,
                    config_keys=[plugin_pb.ConfigKey(name="script", type="string", required=True)],
                ),
                plugin_pb.ConnectorSpec(
                    name="sink",
                    kind=plugin_pb.KIND_SINK,
                    sink=plugin_pb.SinkCapabilities(commit_modes=[1, 3, 99]),
                ),
            ],
        )

    async def Shutdown(self, request, context):
        if "ignore_shutdown" in MODES:
            await asyncio.Event().wait()
        if "ignore_term" not in MODES:
            ENDING.set()
        return plugin_pb.ShutdownResponse()


class Connector(connector_grpc.ConnectorServiceServicer):
    async def ValidateConfig(self, request, context):
        config = request.target.config
        if "eat" in config:
            eat(int(config["eat"]))
        if "hang" in config:
            await asyncio.Event().wait()
        if "crash" in config:
            os._exit(7)
        if "feed a child" in config:
            feed_a_child(int(config["feed a child"]))
        if "refuse" in config:
            secret = request.target.secrets["password"]
            await refuse(context, "mine.bad", f"\x1b[31m{secret} is wrong\nreally")
        if "status" in config:
            await context.abort(
                grpc.StatusCode.UNKNOWN, "boom " + request.target.secrets["password"]
            )
        if "say" in config:
            print(config["say"], file=sys.stderr, flush=True)
        metadata = dict(context.invocation_metadata())
        return connector_pb.ValidateConfigResponse(
            values=[
                connector_pb.ConfigValue(name="credential", value=metadata["penstock-credential"]),
                connector_pb.ConfigValue(name="environment", value=json.dumps(dict(os.environ))),
                connector_pb.ConfigValue(name="cwd", value=str(Path.cwd())),
                connector_pb.ConfigValue(
                    name="bad",
                    diagnostics=[
                        diagnostic_pb2.Diagnostic(code="mine.key", message="no", severity=3)
                    ],
                ),
            ],
        )

    async def Plan(self, request, context):
        tasks = [
            connector_pb.TaskPlan(task_id=str(number), partitions=request.known_partitions)
            for number in range(request.max_tasks + int(request.target.config.get("more", "0")))
        ]
        return connector_pb.PlanResponse(tasks=tasks)

    async def Apply(self, request, context):
        return connector_pb.ApplyResponse(actions=[f"action {request.action}"])

    async def AlterOffsets(self, request, context):
        config = request.target.config
        partitions = request.partitions[int(config.get("left.out", "0")) :]
        if "renames" in config:
            ids = [f'{{"own":{n * int(config["renames"])}}}' for n in range(len(partitions))]
            partitions = [record_pb2.Partition(partition_id=id_) for id_ in ids]
        return connector_pb.AlterOffsetsResponse(partitions=partitions)

    async def CheckConnection(self, request, context):
        for step in ("dns", "tcp", "login"):
            yield connector_pb.CheckConnectionResponse(step=step, ok=step != "login")
        if "crash" in request.target.config:
            os._exit(8)

    async def ListDatasets(self, request, context):
        config = request.target.config
        for one in json.loads(config["datasets"]):
            schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in one[1].items()])
            dataset = connector_pb.Dataset(
                name=one[0].replace("SECRET", request.target.secrets["password"]),
                dataset="rows",
                arrow_schema=schema.serialize().to_pybytes() if one[1] else b"",
                key_columns=one[2:],
                selected=True,
            )
            yield connector_pb.ListDatasetsResponse(dataset=dataset)
        if "without" in config:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such method")

    async def Monitor(self, _, context):
        request = await context.read()
        print(
            f"watch {json.dumps(json_format.MessageToDict(request))}", file=sys.stderr, flush=True
        )
        script = json.loads(request.target.config["script"])
        await play(context, script, connector_pb.MonitorResponse)


async def play(context, script: list, kind: type) -> None:
    """Send frames and follow orders; `take` reads what the host sent, `end` ends the stream."""
    for step in script:
        if "frame" in step:
            await context.write(json_format.ParseDict(step["frame"], kind()))
            continue
        ((order, value),) = ((k, v) for k, v in step.items() if k != "class")
        if order == "end":
            return
        if order == "garbage":
            await context.write(kind.FromString(bytes.fromhex(value)))
        await ORDERS.get(order, nothing)(context, value, step)
    await until_closed(context)


async def nothing(*_) -> None:
    pass


async def take(context, times, _) -> None:
    """Read frames of the host; report each as a line of the log, where a test can see it."""
    for _ in range(times):
        request = await context.read()
        text = json.dumps(json_format.MessageToDict(request))
        print(f"took {text}", file=sys.stderr, flush=True)


async def crash(_, status, __) -> None:
    os._exit(status)


async def send_signal(_, number, __) -> None:
    os.kill(os.getpid(), number)


async def eat_more(_, mebibytes, __) -> None:
    eat(mebibytes)


async def hang(*_) -> None:
    await asyncio.Event().wait()


async def shout(context, reason, _) -> None:
    """Ask for plans without end; say how often that was possible so far."""
    for count in itertools.count(1):
        wish = connector_pb.Replan(reason=f"{count} {reason}")
        await context.write(connector_pb.MonitorResponse(replan=wish))
        if count % 10 == 0:
            print(f"shouted {count}", file=sys.stderr, flush=True)


async def refuse_with(context, code, step) -> None:
    await refuse(context, code, "refused", step.get("class", 2))


ORDERS = {
    "take": take,
    "crash": crash,
    "signal": send_signal,
    "eat": eat_more,
    "hang": hang,
    "refuse": refuse_with,
    "shout": shout,
}


async def until_closed(context) -> None:
    while await context.read() is not grpc.aio.EOF:
        pass


class Source(source_grpc.SourceServiceServicer):
    async def Read(self, _, context):
        request = await context.read()
        task = json.dumps(json_format.MessageToDict(request.open.task))
        print(f"open {task}", file=sys.stderr, flush=True)
        await play(
            context, json.loads(request.open.target.config["script"]), source_pb.ReadResponse
        )


class Sink(sink_grpc.SinkServiceServicer):
    """Answers as its configuration says; otherwise well."""

    async def Write(self, _, context):
        order = (await context.read()).open
        config = order.target.config
        if "open" in config:
            await play(context, json.loads(config["open"]), sink_pb.WriteResponse)
        await context.write(
            sink_pb.WriteResponse(opened=sink_pb.WriteOpened(commit_mode=order.commit_mode or 3))
        )
        while (request := await context.read()) is not grpc.aio.EOF:
            kind = request.WhichOneof("kind")
            if kind in config:
                script = json.loads(config[kind])
                await play(context, script, sink_pb.WriteResponse)
                if {"end": 1} in script:
                    return
                continue
            answer = self.answer(order, kind, request)
            if answer:
                await context.write(answer)

    def answer(self, order, kind, request):
        match kind:
            case "schema":
                applied = sink_pb.SchemaApplied(schema_id=request.schema.schema_id)
                return sink_pb.WriteResponse(schema_applied=applied)
            case "prepare":
                state = json.dumps([[s.slot, s.attempt, s.rows] for s in request.prepare.slots])
                txn = sink_pb.PreparedTxn(
                    txn_id=request.prepare.txn_id, epoch=order.epoch, state=state.encode()
                )
                return sink_pb.WriteResponse(prepared=sink_pb.Prepared(txn=txn))
            case "commit":
                done = sink_pb.TxnCommitted(txn_id=request.commit.txn_id)
                return sink_pb.WriteResponse(txn_committed=done)
            case "close":
                return sink_pb.WriteResponse(closed=sink_pb.WriteClosed())
        return None


def handshake() -> None:
    if "file" in MODES:
        place = Path(os.environ["PENSTOCK_HANDSHAKE_FILE"])
        part = place.with_suffix(".part")
        part.write_text(LINE + "\n")
        part.rename(place)
        return
    if "dirty" in MODES:
        say(
            "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n\n|a|table|\n1|2|3\nno newline before it:", end=""
        )
    if "binary" in MODES:
        sys.stdout.buffer.write(bytes(range(128, 256)) * 300 + b"\n\x00\xff")
        sys.stdout.flush()
    if "long_line" in MODES:
        say("x" * (1 << 20))
    say(LINE)
    if "two_lines" in MODES:
        say("1|1|unix|/run/docker.sock|grpc|")


ENDING = asyncio.Event()


async def flood() -> None:
    """100 MB of noise, with all that a terminal must not see."""
    line = ("\x1b[2J" + "x" * 996 + "\n").encode() + b"\xff\xfe{}\n"

    def write() -> None:
        for _ in range(100):
            sys.stderr.buffer.write(line * 1000)
        sys.stderr.buffer.write(b"flooded\n")
        sys.stderr.flush()

    await asyncio.to_thread(write)


async def main() -> None:
    server = grpc.aio.server()
    plugin_grpc.add_PluginServiceServicer_to_server(Plugin(), server)
    connector_grpc.add_ConnectorServiceServicer_to_server(Connector(), server)
    source_grpc.add_SourceServiceServicer_to_server(Source(), server)
    sink_grpc.add_SinkServiceServicer_to_server(Sink(), server)
    serving = health_pb2.HealthCheckResponse.SERVING
    if "not_serving" in MODES:
        serving = health_pb2.HealthCheckResponse.NOT_SERVING
    if "no_health" not in MODES:
        service = health.aio.HealthServicer()
        await service.set("plugin", serving)
        health_pb2_grpc.add_HealthServicer_to_server(service, server)
    server.add_insecure_port(f"unix:{SOCKET}")
    await server.start()
    handshake()
    flooding = asyncio.create_task(flood()) if "flood" in MODES else None
    if "ignore_eof" not in MODES:
        asyncio.get_running_loop().run_in_executor(None, watch_stdin, asyncio.get_running_loop())
    await ENDING.wait()
    await server.stop(0.1)
    if flooding:
        await flooding
    os._exit(0)


def watch_stdin(loop) -> None:
    while os.read(0, 1024):
        pass
    loop.call_soon_threadsafe(ENDING.set)


if "eats_at_start" in MODES:
    eat(256)
before_serving()
asyncio.run(main())
