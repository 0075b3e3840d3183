"""Typed configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import grpc
import pytest

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1.connector_service_pb2_grpc import ConnectorServiceStub
from penstock_connector import ConfigError, KeyHint, Source, key
from penstock_connector._config import (
    keys_of,
    parse_config,
    parse_duration,
    parse_size,
    read_config,
)
from penstock_connector.testing import RemoteError, Testbed, validate


@dataclass(frozen=True)
class Config:
    path: str = key(doc="A file.", required=True)
    batch_rows: int = key(100, doc="Rows.")
    poll: float = key(0.05, doc="Wait.", type="duration")
    timeout_ms: float = key(2.0, doc="Wait.", type="duration")
    memory: int = key(1 << 20, doc="Bytes.", type="size")
    names: list[str] = key(["a", "b"], doc="Names.")  # noqa: RUF009 - key makes a field
    tags: tuple[str, ...] = key((), doc="Tags.")
    follow: bool = key(False, doc="Go on.")
    mode: str = key("fast", doc="How.", choices=("fast", "safe"))
    level: Literal["low", "high"] = key("low", doc="How much.")
    token: str | None = key(doc="Secret.", type="password")
    plain: int = 7


def test_text_becomes_typed_values():
    config = parse_config(
        Config,
        {
            "path": "/a", "batch.rows": "5", "poll": "100ms", "timeout.ms": "500",
            "memory": "2MiB", "names": "x, y", "tags": "t", "follow": "TRUE", "mode": "safe",
            "level": "high", "token": " s ", "plain": "8",
        },
    )  # fmt: skip
    assert config == Config(
        path="/a", batch_rows=5, poll=0.1, timeout_ms=0.5, memory=2 << 20, names=["x", "y"],
        tags=("t",), follow=True, mode="safe", level="high", token=" s ", plain=8,
    )  # fmt: skip


def test_keys_that_are_not_given_have_their_defaults():
    assert parse_config(Config, {"path": "/a"}) == Config(path="/a")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5),
        ("100ms", 0.1),
        ("1.5h", 5400),
        ("2m", 120),
        ("3", 3),
        ("7us", 7e-6),
        ("1d", 86400),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"), [("1MiB", 1 << 20), ("64kB", 64000), ("4096", 4096), ("1.5KiB", 1536)]
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("given", "code", "path", "fix"),
    [
        ({"pth": "/a", "path": "/a"}, "config.unknown_key", "pth", "Did you mean 'path'?"),
        ({}, "config.missing", "path", "Set it."),
        ({"path": " "}, "config.missing", "path", "Set it."),
        ({"path": "/a", "poll": "fast"}, "config.invalid_value", "poll", "a duration like 5s"),
        ({"path": "/a", "memory": "1XB"}, "config.invalid_value", "memory", "a size like 1MiB"),
        ({"path": "/a", "batch.rows": "1.5"}, "config.invalid_value", "batch.rows", "whole number"),
        ({"path": "/a", "follow": "yes"}, "config.invalid_value", "follow", "true or false"),
        ({"path": "/a", "mode": "saef"}, "config.invalid_choice", "mode", "Did you mean 'safe'?"),
    ],
)
def test_errors_name_the_key_and_the_fix(given, code, path, fix):
    with pytest.raises(ConfigError) as caught:
        parse_config(Config, given)
    assert (caught.value.code, caught.value.config_path) == (code, path)
    assert fix in caught.value.fix


def test_all_errors_are_found_at_once():
    config, errors = read_config(Config, {"a": "1", "poll": "x"})
    assert config is None
    assert [error.config_path for error in errors] == ["a", "path", "poll"]


def test_a_secret_is_in_no_error_and_no_repr():
    @dataclass(frozen=True)
    class Secret:
        pin: int = key(doc="A secret.", sensitive=True)

    with pytest.raises(ConfigError) as caught:
        parse_config(Secret, {"pin": "tops3cret"})
    assert "tops3cret" not in str(caught.value) + str(caught.value.diagnostic())
    assert "1234" not in repr(parse_config(Secret, {"pin": "1234"}))


def test_what_post_init_refuses_is_a_configuration_error():
    @dataclass(frozen=True)
    class Checked:
        low: int = key(1, doc="Low.")

        def __post_init__(self):
            if self.low < 0:
                raise ValueError("low must not be negative")

    with pytest.raises(ConfigError, match="must not be negative"):
        parse_config(Checked, {"low": "-1"})


def test_defaults_as_text_are_read_back_as_the_same_values():
    given = {
        k.name: k.text(k.default)
        for k in keys_of(Config).values()
        if k.default is not None and k.default != ()
    }
    assert parse_config(Config, {"path": "/a"} | given) == Config(path="/a")


def test_keys_are_described():
    path, rows, poll, *_ = (k.to_proto(i) for i, k in enumerate(keys_of(Config).values()))
    assert (path.name, path.type, path.required, path.importance) == (
        "path",
        "string",
        True,
        "high",
    )
    assert (rows.name, rows.type, rows.default_value, rows.order) == ("batch.rows", "int", "100", 1)
    assert (poll.type, poll.default_value, poll.documentation) == ("duration", "50ms", "Wait.")


def test_an_unsupported_annotation_is_told():
    @dataclass(frozen=True)
    class Odd:
        when: complex = key(1j, doc="?")

    with pytest.raises(TypeError, match="'when'"):
        keys_of(Odd)


def test_a_key_that_does_nothing_is_warned_about_when_it_is_set():
    @dataclass(frozen=True)
    class Config:
        old: str = key("", doc="Of another product.", no_effect="there is nothing to do")

    class Idle(Source[Config]):
        name = "idle"

    assert validate(Idle, {}) == []
    assert validate(Idle, {"old": "x"}) == ["config.no_effect"]


def test_a_mapping_has_all_keys_with_its_prefix():
    @dataclass(frozen=True)
    class Prefixed:
        converter: str = key("json", doc="Converter.")
        keys: Mapping[str, str] = key(doc="Its keys.", name="converter")

    found = parse_config(Prefixed, {"converter": "x", "converter.a": "1", "converter.b.c": "2"})
    assert (found.converter, found.keys) == ("x", {"a": "1", "b.c": "2"})
    assert parse_config(Prefixed, {}).keys == {}
    with pytest.raises(ConfigError, match="unknown_key"):
        parse_config(Prefixed, {"converters.a": "1"})
    messages = [k.to_proto(at) for at, k in enumerate(keys_of(Prefixed).values())]
    assert [(one.name, one.type) for one in messages] == [
        ("converter", "string"),
        ("converter.*", "string"),
    ]


@dataclass(frozen=True)
class FormConfig:
    """Whose form depends on the mode."""

    mode: str = key("file", doc="Where.", choices=("file", "table", "broken"))
    path: str = key("", doc="Of a file.")
    part: str = key("", doc="Of what there is.")
    password: str = key("", doc="To get in.", type="password")
    more: Mapping[str, str] = key(doc="More keys.")

    @classmethod
    def key_hints(cls, values):
        if values.get("mode") == "broken":
            return {"pth": KeyHint()}
        return {
            "path": KeyHint(visible=values["mode"] == "file"),
            "part": KeyHint(sorted(values)),
        }


class Former(Source[FormConfig]):
    """A source with a form."""

    name = "former"
    config_type = FormConfig


def form_of(bed, config, secrets=()):
    target = pb.Target(connector="former", config=config, secrets=dict(secrets))
    answer = ConnectorServiceStub(bed.channel).ValidateConfig(
        pb.ValidateConfigRequest(target=target), metadata=bed.metadata, timeout=60
    )
    return {value.name: value for value in answer.values}


def test_a_form_shows_what_the_other_values_say():
    with Testbed(Former) as bed:
        assert form_of(bed, {})["path"].visible
        assert not form_of(bed, {"mode": "table"})["path"].visible
        assert form_of(bed, {"mode": "table"})["mode"].visible
        wrong = form_of(bed, {"mode": "none such", "unknown": "1"})
        assert not wrong["path"].visible, "also of what is wrong"
        assert list(wrong["part"].recommended_values) == ["mode", "part", "path", "unknown"]


def test_a_form_is_made_without_secrets():
    with Testbed(Former) as bed:
        shown = form_of(
            bed, {"password": "plain", "more.a": "1"}, {"path": "looked up", "key": "k"}
        )
        assert list(shown["part"].recommended_values) == ["mode", "more.a", "part", "path"]


def test_a_hint_about_no_key_is_a_defect():
    with Testbed(Former) as bed, pytest.raises(grpc.RpcError) as caught:
        form_of(bed, {"mode": "broken"})
    assert "pth" in str(RemoteError(caught.value))
