"""The handshake: found in dirt, refused with a code of its own when it is wrong."""

import asyncio
import sys
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import InternalError, PenstockError
from penstock.plugin.limits import Deadlines
from penstock.plugin.process.handshake import Handshake, dial_address, parse_handshake
from support import http2


@pytest.mark.parametrize(
    "line",
    [
        "1|1|unix|/d/s|grpc|",
        "1|1|unix|/d/s|grpc",
        "1|1|unix|/d/s|grpc||true",
        "banner without newline: 1|1|unix|/d/s|grpc|\r",
        "\ufffd\ufffd1|1|unix|/d/s|grpc|",
    ],
)
def test_the_line_is_found(line):
    assert parse_handshake(line) == Handshake(1, 1, "unix", "/d/s", "grpc")


@pytest.mark.parametrize(
    "line", ["", "hello", "1|2|3", "|a|b|", "1|1|unixoid", "x|1|unix|/s|grpc|"]
)
def test_other_text_is_no_handshake(line):
    assert parse_handshake(line) is None


def test_a_line_that_is_not_complete_is_refused():
    with pytest.raises(InternalError) as caught:
        parse_handshake("1|1|unix|")
    assert caught.value.code == "plugin.bad_handshake"


@given(st.text(max_size=300))
def test_no_text_breaks_the_parser(text):
    with suppress(InternalError):
        parse_handshake(text)


@given(st.text(alphabet="01|unix/grpc\n", max_size=200))
def test_no_almost_handshake_breaks_the_parser(text):
    test_no_text_breaks_the_parser.hypothesis.inner_test(text)


def test_a_symlink_out_of_the_folder_is_foreign(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "s").symlink_to("/run/elsewhere/s")
    with pytest.raises(InternalError) as caught:
        dial_address(Handshake(1, 1, "unix", str(tmp_path / "d" / "s"), "grpc"), tmp_path / "d")
    assert caught.value.code == "plugin.foreign_address"


@pytest.mark.parametrize(
    "modes", [(), ("dirty",), ("binary",), ("long_line",), ("two_lines",), ("file",)]
)
def test_a_plugin_is_found_whatever_else_it_prints(kit, run, modes):
    async def scenario():
        async with kit.running(*modes) as process:
            assert process.alive
            assert await kit.is_healthy(process)
            assert process.spec.keys[0].name == "script"

    run(scenario())


@pytest.mark.parametrize(
    ("mode", "code", "deadlines"),
    [
        ("exit", "plugin.exited_early", {}),
        ("die", "plugin.exited_early", {}),
        ("silent", "plugin.handshake_timeout", {"handshake_s": 1}),
        ("closes_stdout", "plugin.handshake_timeout", {"handshake_s": 1}),
        ("no_newline", "plugin.handshake_unfinished", {"handshake_s": 12}),
        ("bad_line", "plugin.bad_handshake", {}),
        ("wrong_core", "plugin.wrong_protocol", {}),
        ("wrong_protocol", "plugin.wrong_protocol", {}),
        ("tcp", "plugin.wrong_transport", {}),
        ("netrpc", "plugin.wrong_transport", {}),
        ("tls", "plugin.unwanted_tls", {}),
        ("foreign", "plugin.foreign_address", {}),
        ("dotdot", "plugin.foreign_address", {}),
        ("no_server", "plugin.not_answered", {"health_s": 0.5}),
        ("deaf", "plugin.not_answered", {"health_s": 0.5}),
        ("no_health", "plugin.not_serving", {}),
        ("not_serving", "plugin.not_serving", {}),
        ("hang_describe", "plugin.deadline", {"describe_s": 0.5}),
        ("other_kind", "plugin.describe_mismatch", {}),
    ],
)
def test_each_way_to_fail_at_the_start_has_a_code_and_leaves_nothing(
    kit, run, mode, code, deadlines
):
    with pytest.raises(PenstockError) as caught:
        run(kit.start(mode, deadlines=replace(kit.deadlines, **deadlines)))
    assert caught.value.code == code
    assert code == "plugin.deadline" or caught.value.diagnostic.fix
    kit.wait_for(lambda: not kit.processes(), "no process")


def test_a_missing_library_is_named_with_the_command_that_installs_it(kit, run):
    command = (sys.executable, "-c", "import no_such_library.part")
    for install, fix in (
        ("pip install 'penstock[x]'", "pip install 'penstock[x]'"),
        ("", "install what has the module no_such_library"),
    ):
        manifest = replace(kit.manifest(*command, name="strict"), install=install)
        with pytest.raises(PenstockError) as caught:
            run(kit.start_of(manifest))
        assert caught.value.code == "plugin.exited_early"
        assert caught.value.diagnostic.fix.startswith("Its library no_such_library is missing.")
        assert caught.value.diagnostic.fix.endswith(fix)


def test_a_server_that_resets_calls_is_not_called_one_that_does_not_serve(kit, run):
    command = (sys.executable, http2.__file__, "refuse")
    with pytest.raises(PenstockError) as caught:
        run(kit.start_of(kit.manifest(*command, name="strict")))
    assert caught.value.code == "plugin.not_answered"
    assert "HTTP/2 server reset the call" in caught.value.diagnostic.message
    assert ":authority" in caught.value.diagnostic.fix
    assert "serving" not in caught.value.diagnostic.message


def test_a_plugin_that_ends_early_is_told_with_its_last_lines_and_the_usual_causes(kit, run):
    with pytest.raises(PenstockError) as caught:
        run(kit.start("exit"))
    text = str(caught.value)
    assert "exited with status 3" in text
    assert "no module named 'nothing'" in text
    assert "four usual causes" in text


def test_a_slow_start_names_its_stage(kit, run):
    with pytest.raises(PenstockError, match=r"stage plugin\.handshake took longer than 0\.3 s"):
        run(kit.start("silent", deadlines=Deadlines(handshake_s=0.3)))


def test_a_start_that_is_cancelled_leaves_nothing(kit, run):
    async def scenario():
        starting = asyncio.create_task(kit.start("silent"))
        await kit.until(kit.processes)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        assert starting.cancelled()

    run(scenario())
    assert not list(kit.runtime_dir.iterdir())
