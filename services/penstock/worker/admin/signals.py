"""Lets the plugin of a source write signals to where its tasks read them, such as a table."""

from __future__ import annotations

from penstock.model.admin import Signal
from penstock.model.connector import Connector
from penstock.model.errors import ConfigError, PenstockError
from penstock.telemetry.redaction import redact_errors
from penstock.worker.admin.datasets import require_source
from penstock.worker.config.resolved_config import WorkerContext, acquire_plugin

_SOURCE = "source"


class SignalSender:
    """Sends signals with the plugins of a worker."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context

    async def send(self, connector: Connector, signal: Signal) -> str:
        """Send a signal to a connector. Returns the place where it was written.

        Raises:
            PenstockError: the connector has no source, `plugin.takes_no_signals`, or the plugin
                refuses or fails.
        """
        resolved = await self._context.resolve(connector)
        require_source(resolved, "signals are for sources", "Name a source.")
        with redact_errors(resolved.secret_texts):
            process, target = await acquire_plugin(self._context.host, resolved, _SOURCE)
            try:
                return await process.send_signal(target, signal)
            except PenstockError as error:
                if error.code != "plugin.unimplemented":
                    raise
                raise _takes_none(process.spec.name) from error


def _takes_none(connector: str) -> ConfigError:
    return ConfigError(
        "plugin.takes_no_signals",
        f"the connector {connector} takes no signals",
        fix="Sources of changes do: mysql-cdc, postgres-cdc. To read all of another source again, "
        "stop it and reset its offsets: penstock offsets reset NAME.",
        config_path="connector.class",
    )
