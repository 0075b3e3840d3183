"""How an S3-compatible store is reached: a value, without the library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.telemetry import Secret

_NO_SECRET: Final = Secret("")


@dataclass(frozen=True, slots=True)
class S3Settings:
    """What is empty comes from the standard `AWS_…` variables of each process, or the machine's
    role. What is set travels to the executors in their tickets, which nothing prints.
    """

    endpoint: str = ""
    """URL of the store; empty for Amazon's of the region."""
    region: str = ""
    access_key: Secret = field(default=_NO_SECRET)
    secret_key: Secret = field(default=_NO_SECRET)

    @property
    def where(self) -> str:
        """The endpoint that is asked, for messages."""
        named = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
        found = (os.environ[name] for name in named if os.environ.get(name))
        return self.endpoint or next(found, "")

    @property
    def options(self) -> dict[str, str]:
        """What is set, by the names that obstore and Delta's library know. Holds secrets."""
        known = ("AWS_REGION", "AWS_DEFAULT_REGION")
        region = self.region or next((os.environ[n] for n in known if os.environ.get(n)), "")
        fields = {
            "aws_endpoint_url": self.where,
            "aws_region": region or "us-east-1",
            "aws_access_key_id": self.access_key.reveal(),
            "aws_secret_access_key": self.secret_key.reveal(),
        }
        return {name: value for name, value in fields.items() if value}

    @property
    def plain_http(self) -> bool:
        """Whether the endpoint is asked without TLS, which its URL has to say."""
        return self.where.startswith("http://")

    def to_ticket(self) -> dict[str, str]:
        """Return what executors need. Holds secrets."""
        fields = {
            "endpoint": self.endpoint,
            "region": self.region,
            "access_key": self.access_key.reveal(),
            "secret_key": self.secret_key.reveal(),
        }
        return {name: value for name, value in fields.items() if value}

    @staticmethod
    def from_ticket(fields: Mapping[str, str]) -> S3Settings:
        """Return what `to_ticket` gave."""
        return S3Settings(
            fields.get("endpoint", ""),
            fields.get("region", ""),
            Secret(fields.get("access_key", "")),
            Secret(fields.get("secret_key", "")),
        )
