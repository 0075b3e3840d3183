"""A source and a sink that make loss, repetition and disorder visible.

- `rows`     numbered rows with checksums; ranges of numbers
- `source`   gives them, and forgets what was acknowledged
- `sink`     writes down which of them arrived; `ledger` is the file
"""

from penstock_builtin.verifiable.sink import VerifiableSink, VerifiableSinkConfig
from penstock_builtin.verifiable.source import VerifiableSource, VerifiableSourceConfig

__all__ = [
    "VerifiableSink",
    "VerifiableSinkConfig",
    "VerifiableSource",
    "VerifiableSourceConfig",
]
