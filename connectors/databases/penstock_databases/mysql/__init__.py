"""MariaDB and MySQL: sessions, catalog, types, reading and writing; and the faster ways in."""
