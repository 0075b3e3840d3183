"""grpcurl, made from its source by Go once for this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

VERSION: Final = "v1.9.3"
_PACKAGE: Final = "github.com/fullstorydev/grpcurl/cmd/grpcurl"
_WITHIN: Final = 480.0
"""Seconds for its modules to be fetched and compiled, on two slow cores."""


def grpcurl() -> Path:
    """Return the folder that has it; it is kept beside other caches, outside of the checkout."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "penstock" / f"grpcurl-{VERSION}"
    if not (folder / "grpcurl").exists():
        subprocess.run(
            ["go", "install", f"{_PACKAGE}@{VERSION}"],
            env={**os.environ, "GOBIN": str(folder), "GOFLAGS": ""},
            check=True,
            timeout=_WITHIN,
        )
    return folder
