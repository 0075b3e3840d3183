"""Certificates for a test: an authority of its own, and what it signs."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Authority:
    """Signs certificates into a folder: `ca.pem`, `<name>.pem`, `<name>.key`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.ca = folder / "ca.pem"
        self._openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
            "-subj /CN=authority -keyout ca.key -out ca.pem"
        )

    def sign(self, name: str, days: int = 2, address: str = "") -> tuple[Path, Path]:
        """Return the files of a certificate for a name and its key, and for an IP address if one is
        given. Of -1 days: it has expired.
        """
        extension = self.folder / f"{name}.ext"
        names = [f"DNS:{name}", *([f"IP:{address}"] if address else [])]
        extension.write_text(f"subjectAltName={','.join(names)}\n")
        self._openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
            f"-subj /CN={name} -keyout {name}.key -out {name}.csr"
        )
        self._openssl(
            f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days {days} "
            f"-extfile {name}.ext -out {name}.pem"
        )
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"

    def _openssl(self, command: str) -> None:
        subprocess.run(
            ["openssl", *command.split()], cwd=self.folder, check=True, capture_output=True
        )
