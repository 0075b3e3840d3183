"""The systemd units, and what systemd says about them.

`python -m support.units` lets `systemd-analyze` look at every unit, and keeps a digest of
those that it took without a word. By that, a machine without systemd tells that they are the same.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from support.checkout import ROOT

UNITS: Final = ROOT / "deploy" / "systemd"
TAKEN: Final = ROOT / "tests" / "contract" / "deploy" / "units.sha256"
SERVICES: Final = {
    "penstock@.service": ("config", "offset", "scheduler", "gateway"),
    "penstock-worker@.service": ("w1",),
}
INSTANCES: Final = [(unit, name) for unit, names in SERVICES.items() for name in names]


def systemd() -> str | None:
    """Return what looks at units, None when this machine has no systemd."""
    return shutil.which("systemd-analyze")


def digest(folder: Path) -> str:
    """Return a digest of the units in a folder."""
    found = hashlib.sha256()
    for file in sorted((*folder.glob("*.service"), *folder.glob("*.target"))):
        found.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


def taken(folder: Path) -> bool:
    """Whether the units in a folder are those that systemd took."""
    return digest(folder) == TAKEN.read_text(encoding="utf-8").strip()


def said(folder: Path, unit: str, name: str) -> str:
    """Return what systemd says about an instance of a unit, with a program that exists."""
    with tempfile.TemporaryDirectory() as scratch:
        for file in (*folder.glob("*.service"), *folder.glob("*.target")):
            text = file.read_text().replace("/opt/penstock/bin/penstock", "/bin/true")
            Path(scratch, file.name.replace("@.", f"@{name}.")).write_text(text)
        target = Path(scratch, unit.replace("@.", f"@{name}."))
        done = subprocess.run(
            [systemd() or "systemd-analyze", "verify", "--man=no", str(target)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    return done.stderr or ("" if done.returncode == 0 else f"it ends with {done.returncode}")


if __name__ == "__main__":
    objections = [said(UNITS, unit, name) for unit, name in INSTANCES]
    assert not any(objections), objections
    TAKEN.write_text(f"{digest(UNITS)}\n", encoding="utf-8")
