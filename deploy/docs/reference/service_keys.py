"""The page of the processes: the keys of each service of a cluster, and of a standalone node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from penstock.cluster.keys import COMMON, KEYS, variable_name
from penstock.gateway.settings import KEYS as GATEWAY_KEYS
from penstock.model.config_def import ConfigKey
from penstock.secrets.provider_settings import KEYS as PROVIDER_KEYS
from penstock.standalone.connect_keys import UNUSED
from penstock.standalone.settings import KEYS as NODE_KEYS
from penstock.worker.process_keys import KEYS as WORKER_KEYS
from penstock.worker.process_keys import SPARK
from reference.markdown import KEY_HEAD, code, key_rows, key_table, page, plain, table

_SERVICES: Final = {
    "config": "The config service keeps what should run: connectors, revisions, target states.",
    "offset": "The offset service keeps how far every partition was read.",
    "scheduler": "The scheduler assigns tasks to workers. Several may run; one leads.",
    "worker": "A worker runs tasks: plugins, Spark, topics.",
    "gateway": "A gateway serves Kafka Connect's REST API, over the other services.",
}


def write_page() -> str:
    """Return the page."""
    return page(
        "Services",
        "`penstock config|offset|scheduler|worker|gateway --config FILE` starts a service of a "
        "cluster, `penstock standalone FILE…` all of them in one process. A file is properties, "
        "YAML or JSON. In a cluster each key of a table here may also be set by its environment "
        "variable, which overrides the file. A misspelt key or variable is refused.",
        "## Keys of every service of a cluster",
        _table_with_variables(COMMON),
        *_services(),
        "## standalone",
        "A standalone node has the keys of the gateway, those of the worker but `state.dir`, "
        "`labels` and `capacity`, and these. It reads no variables for them.",
        key_table(key for key in NODE_KEYS if key not in {*GATEWAY_KEYS, *WORKER_KEYS}),
        "`plugin.only.sealed` is `false` by default there.",
        "## Open keys of a worker",
        f"Keys that begin with `{SPARK}` are Spark's own, without this prefix. Keys about topics "
        "of a broker (`bootstrap.servers`, `namesrv.addr`, their clients and converters) are in "
        "`services/penstock/worker/README.md`. None of them can be set by a variable.",
        "### Providers of secrets",
        "`config.providers` lists names; a provider's kind is its name, or what "
        "`config.providers.NAME.class` says. Its parameters follow `config.providers.NAME.param.`:",
        table(
            ("kind", *KEY_HEAD),
            ((code(kind), *row) for kind, keys in PROVIDER_KEYS.items() for row in key_rows(keys)),
        ),
        "## Keys of other products without effect",
        "In the file of a standalone node they load, and each that is set gets a warning with the "
        "reason (`config.not_here_yet`). The first line that fits a key counts.",
        table(
            ("key, or how it begins", "why it does nothing"),
            ((code(key), plain(why)) for key, why in UNUSED.items()),
        ),
    )


def _services() -> Iterator[str]:
    common = {key.name for key in COMMON}
    for service, keys in KEYS.items():
        yield f"## {service}"
        yield _SERVICES[service]
        yield _table_with_variables(key for key in keys if key.name not in common)


def _table_with_variables(keys: Iterable[ConfigKey]) -> str:
    listed = list(keys)
    rows = zip(key_rows(listed), listed, strict=True)
    return table((*KEY_HEAD, "variable"), ((*row, code(variable_name(key))) for row, key in rows))
