"""Whatever bytes are sent to a method of a service (X6): it is refused, and the service goes on."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import psutil
import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import MethodDescriptor

SERVICES = {"config": "ConfigService", "offset": "OffsetService"}
SERVICES |= {"scheduler": "SchedulerService", "worker": "WorkerService"}
NEVER = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL}
MOST_GROWTH = 256 << 20


def methods() -> Iterator[MethodDescriptor]:
    """Every method of every service that is served in a process."""
    pool = descriptor_pool.Default()
    for room, name in SERVICES.items():
        yield from pool.FindServiceByName(f"penstock.api.{room}.v1.{name}").methods


METHODS = sorted(methods(), key=lambda one: one.full_name)


@pytest.fixture(scope="module")
def channels(gateway) -> Iterator[dict[str, grpc.Channel]]:
    """A channel to each service."""
    found = {
        name: grpc.insecure_channel(
            getattr(gateway.node, room).address, options=[("grpc.max_send_message_length", -1)]
        )
        for room, name in SERVICES.items()
    }
    yield found
    for channel in found.values():
        channel.close()


def mutants(method: MethodDescriptor, seed: int) -> list[bytes]:
    """Bytes that are no message, or one that nobody would send."""
    chance = random.Random(f"{method.full_name} {seed}")
    message = message_factory.GetMessageClass(method.input_type)()
    filled(message, chance, 0)
    good = message.SerializeToString()
    cut = good[: chance.randrange(len(good) + 1)]
    turned = bytearray(good or b"\0")
    turned[chance.randrange(len(turned))] ^= 1 << chance.randrange(8)
    return [
        b"",
        b"\xff" * 9,
        b"\n\xff\xff\xff\xff\x0f",  # a field of four gigabytes
        chance.randbytes(chance.randrange(1, 200)),
        b"\n\x02" * 5_000,
        b"\x0b" * 10_000,  # groups in groups
        cut,
        bytes(turned),
        good,
    ]


def filled(message: Any, chance: random.Random, depth: int) -> None:
    """Fill a message with what its types allow."""
    for field in message.DESCRIPTOR.fields:
        if chance.random() < 0.3 or depth > 3 or field.is_repeated:
            continue
        match field.cpp_type:
            case field.CPPTYPE_STRING:
                name = chance.choice(["", "x", "\0", "../../etc/passwd", "\u202e", "n" * 5_000])
                text = field.type == field.TYPE_STRING
                setattr(message, field.name, name if text else name.encode())
            case field.CPPTYPE_MESSAGE:
                getattr(message, field.name).SetInParent()
                filled(getattr(message, field.name), chance, depth + 1)
            case field.CPPTYPE_BOOL:
                setattr(message, field.name, chance.random() < 0.5)
            case field.CPPTYPE_ENUM:
                setattr(message, field.name, chance.choice([0, 1, 7, 2**31 - 1]))
            case field.CPPTYPE_DOUBLE | field.CPPTYPE_FLOAT:
                setattr(message, field.name, chance.choice([0.0, -1.0, 1e300, float("nan")]))
            case _:
                setattr(message, field.name, chance.choice([0, 1, 2**31 - 1]))


def sent(
    channel: grpc.Channel, method: MethodDescriptor, data: bytes, within: float = 3, **more: Any
) -> Any:
    """Send a request, or a stream of two; returns the status and the text that comes back."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    single = not method.server_streaming
    ways = {
        (False, True): channel.unary_unary,
        (False, False): channel.unary_stream,
        (True, True): channel.stream_unary,
        (True, False): channel.stream_stream,
    }
    call = ways[method.client_streaming, single](path)
    request = iter([data, data]) if method.client_streaming else data
    try:
        # a watch has nothing to say: it is enough that it does not end by a defect
        answer = call(request, timeout=within if single else 0.3, **more)
        if not single:
            next(answer, None)
            answer.cancel()
    except grpc.RpcError as error:
        return error.code(), error.details()
    return grpc.StatusCode.OK, ""


@pytest.mark.parametrize("method", METHODS, ids=lambda one: one.full_name.partition("api.")[2])
def test_no_bytes_break_a_method(gateway, channels, method):
    before = psutil.Process().memory_info().rss
    channel = channels[method.containing_service.name]
    for data in mutants(method, 1):
        code, text = sent(channel, method, data)
        assert code not in NEVER, (data[:80], text)
    assert psutil.Process().memory_info().rss - before < MOST_GROWTH
    assert gateway.get("/health").status_code == 200


def broken(request: bytes, context: grpc.ServicerContext) -> bytes:
    raise ValueError(request)


def test_a_method_that_breaks_is_seen():
    """The twin of the test above: a service whose method does not expect such bytes."""
    (method,) = [one for one in METHODS if one.name == "GetConnector"]
    handler = grpc.unary_unary_rpc_method_handler(broken)
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler(
                method.containing_service.full_name, {method.name: handler}
            )
        ]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            codes = {sent(channel, method, data)[0] for data in mutants(method, 1)}
    finally:
        server.stop(None).wait()
    assert codes & NEVER


def test_bytes_that_are_no_message_are_the_callers_mistake(channels):
    (method,) = [one for one in METHODS if one.name == "GetConnector"]
    code, text = sent(channels["ConfigService"], method, b"\xff" * 9, 60)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "is not a message of this method" in text


def test_more_metadata_than_anybody_needs_is_refused(channels):
    (method,) = [one for one in METHODS if one.name == "ListConnectors"]
    metadata = [("x-more", os.urandom(32_000).hex())]
    code, _ = sent(channels["ConfigService"], method, b"", 60, metadata=metadata)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_thousand_streams_at_once_leave_it_answering(gateway, channels):
    (method,) = [one for one in METHODS if one.name == "WatchTasks"]
    call = channels["WorkerService"].unary_stream(
        f"/{method.containing_service.full_name}/{method.name}"
    )
    streams = [call(b"", timeout=60) for _ in range(1_000)]
    assert gateway.get("/connectors").status_code == 200
    for stream in streams:
        stream.cancel()
    assert gateway.get("/health").status_code == 200
