"""How each kind of database writes names."""

from __future__ import annotations

from typing import Final

from penstock_connector.tables.names import Naming

MYSQL: Final = Naming("MySQL", "`", 64, plane_0=True)
"""Of MariaDB, too: https://mariadb.com/kb/en/identifier-names/."""

POSTGRESQL: Final = Naming("PostgreSQL", '"', 63, in_bytes=True)
"""It would cut a longer name short, and two tables could become one."""

SQLITE: Final = Naming("SQLite", '"')
"""It has no limit that a person would meet."""

JAVA: Final = Naming("the database", '"')
"""The quote of the SQL standard. A limit of names is the driver's to tell."""
