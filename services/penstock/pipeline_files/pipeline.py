"""The file of a pipeline: a connector with two ends, which needs no topic and no cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.model.config_def import combined
from penstock.model.connector import Connector, ConnectorKind, TargetState
from penstock.model.errors import ConfigError, nearest
from penstock.pipeline_files.connector_file import ENDS, naming, read_connector
from penstock.worker.config.client_overrides import PREFIXES
from penstock.worker.config.sections import CHAIN, FOREIGN, FRAMEWORK, sections

_HEADS: Final = frozenset(
    key.split(".")[0] for key in (*ENDS, *CHAIN, *FRAMEWORK, *FOREIGN, *PREFIXES)
)


def read_pipeline(path: Path) -> Connector:
    """Return the pipeline of a file.

    Raises:
        ConfigError: the file cannot be read, or an end is missing, or a key is not known.
    """
    connector = read_connector(path)
    with naming(path):
        return pipeline_of(connector)


def pipeline_of(connector: Connector) -> Connector:
    """Return a connector that is a pipeline: its keys are those that a worker knows. It runs: who
    says so for one file means it, and the state in it is for what takes many.

    Raises:
        ConfigError: `config.unknown_key`, `pipeline.end_missing`; all of them.
    """
    heads = dict.fromkeys(key.split(".")[0] for key in connector.config)
    unknown = [head for head in heads if head not in _HEADS]
    errors = [_not_of_a_pipeline(head) for head in unknown]
    misspelt = {near for head in unknown for near in nearest(head, _HEADS)}
    errors += [
        _missing(end)
        for end in ENDS
        if end not in misspelt and f"{end}.connector.class" not in connector.config
    ]
    if errors:
        raise combined(errors)
    sections(connector.config, ConnectorKind.PIPELINE)
    return replace(connector, kind=ConnectorKind.PIPELINE, target_state=TargetState.RUNNING)


def _not_of_a_pipeline(head: str) -> ConfigError:
    near = nearest(head, _HEADS)
    return ConfigError(
        "config.unknown_key",
        f"`{head}` is not a key of a pipeline",
        fix=f"Did you mean {' or '.join(near)}?" if near else f"Valid: {sorted(_HEADS)}.",
        config_path=head,
    )


def _missing(end: str) -> ConfigError:
    return ConfigError(
        "pipeline.end_missing",
        f"the pipeline has no {end}",
        fix=f"Add `{end}:` with `connector.class:` and the keys of that connector.",
        config_path=end,
    )
