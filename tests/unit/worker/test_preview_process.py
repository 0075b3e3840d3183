"""What is not worth a process is refused before one is started."""

import asyncio

import pytest

from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError, PenstockError
from penstock.model.preview_rows import Given
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
        asyncio.run(previews.of(CONNECTOR, Given(("{}",))))
    assert caught.value.code == ("preview.not_started" if valid else "config.missing")
    assert bool(started) == valid
