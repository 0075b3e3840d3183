"""PostgreSQL: sessions, catalog, types, COPY in both directions."""
