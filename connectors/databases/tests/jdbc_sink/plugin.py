"""The sink as a plugin process of its own."""

from penstock_connector import serve
from penstock_databases.jdbc_sink import JdbcSink

if __name__ == "__main__":
    serve(JdbcSink)
