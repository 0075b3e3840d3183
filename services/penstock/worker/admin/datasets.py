"""Lists the datasets that the source of a configuration can read, before the connector exists."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from penstock.model.connector import Connector, ConnectorKind
from penstock.model.datasets import DatasetPart, dataset_limit
from penstock.model.errors import ConfigError, PenstockError
from penstock.telemetry.redaction import redact_errors
from penstock.worker.config.resolved_config import ResolvedConfig, WorkerContext, acquire_plugin

_SOURCE = "source"


class DatasetLister:
    """Lists datasets with the plugins of a worker."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context

    async def list_datasets(
        self, connector: Connector, limit: int = 0
    ) -> AsyncGenerator[DatasetPart, None]:
        """Iterate over at most `limit` datasets (0: the default) of the source of a connector. The
        configuration may lack what only tasks need.

        Raises:
            PenstockError: the connector has no source, `plugin.lists_no_datasets`, or the plugin
                fails.
        """
        resolved = await self._context.resolve(connector)
        require_source(
            resolved,
            "datasets are listed of sources",
            "Name a source in `connector.class`. A sink takes the rows of its `topics`.",
        )
        listed, limit = 0, dataset_limit(limit)
        with redact_errors(resolved.secret_texts):
            process, target = await acquire_plugin(self._context.host, resolved, _SOURCE)
            try:
                async with aclosing(process.list_datasets(target)) as datasets:
                    async for dataset in datasets:
                        if listed == limit:
                            yield DatasetPart(more=True)
                            return
                        listed += 1
                        yield DatasetPart(dataset)
            except PenstockError as error:
                if error.code != "plugin.unimplemented":
                    raise
                raise _lists_none(resolved, process.spec.name) from error


def require_source(resolved: ResolvedConfig, why: str, fix: str) -> None:
    """Refuse a connector that has no source.

    Raises:
        ConfigError: `plugin.wrong_kind`.
    """
    if resolved.kind not in {ConnectorKind.SOURCE, ConnectorKind.PIPELINE}:
        raise ConfigError(
            "plugin.wrong_kind",
            f"the connector is a {resolved.kind.name.lower()}, and {why}",
            fix=fix,
            config_path="connector.class",
        )


def _lists_none(resolved: ResolvedConfig, connector: str) -> ConfigError:
    return ConfigError(
        "plugin.lists_no_datasets",
        f"the connector {connector} cannot list the datasets that it reads",
        fix="See its documentation for the names that its keys take.",
        config_path=resolved.plugin_key("connector.class", _SOURCE),
    )
