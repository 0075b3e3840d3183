"""An invalid connector is refused before the preview process starts."""

import asyncio
import os
import signal
import time

import pytest

from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError, PenstockError
from penstock.model.inspection import PreviewRequest
from penstock.worker.admin import preview_process
from penstock.worker.admin.preview_process import PreviewProcess

CONNECTOR = Connector("tried", {}, ConnectorKind.SOURCE)


@pytest.mark.parametrize("valid", [True, False])
def test_a_connector_that_is_not_valid_starts_no_process(tmp_path, monkeypatch, valid):
    started = []

    async def check(connector):
        if not valid:
            raise ConfigError("config.missing", "no class", fix="Set it.")

    async def start(self):
        started.append(self)
        raise preview_process._not_started("this is a test")

    monkeypatch.setattr(PreviewProcess, "_start", start)
    previews = PreviewProcess(None, tmp_path, check)  # settings are for the process
    with pytest.raises(PenstockError) as caught:
        asyncio.run(previews.preview(CONNECTOR, PreviewRequest(("{}",))))
    assert caught.value.code == ("preview.not_started" if valid else "config.missing")
    assert bool(started) == valid


@pytest.mark.parametrize("announced", [False, True])
def test_a_preview_after_the_end_of_the_process_starts_another(tmp_path, monkeypatch, announced):
    """Also in the moments before asyncio knows of the end, and before an announced one."""
    started, pipes = [], []

    async def check(connector):
        return None

    async def start(self):
        self._process = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
        started.append(self._process.pid)
        self._loss, writer = os.pipe()
        pipes.append(writer)
        return Client()

    class Client:
        async def preview_rows(self, connector, request):
            return started[-1]

        async def close(self):
            pass

    async def scenario():
        previews = PreviewProcess(None, tmp_path, check)
        first = await previews.preview(CONNECTOR, PreviewRequest(("{}",)))
        if announced:
            os.write(pipes[0], b"!")
            asyncio.get_running_loop().call_later(0.1, os.kill, first, signal.SIGKILL)
        else:
            os.kill(first, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while not announced and not preview_process._has_ended(first):  # blocks asyncio
            assert time.monotonic() < deadline
        second = await previews.preview(CONNECTOR, PreviewRequest(("{}",)))
        os.kill(second, signal.SIGKILL)
        await previews.close()
        return first, second

    monkeypatch.setattr(PreviewProcess, "_start", start)
    first, second = asyncio.run(scenario())
    for pipe in pipes:
        os.close(pipe)
    assert started == [first, second]
    assert first != second
