"""Everything that is served: the whole wiring.

oarlock serve src/adapter/server.py
"""

from oarlock import APIServer
from oarlock.client import Client

from .collections.parts import Parts
from .collections.suppliers import Suppliers
from .parts_table import PartsTable
from .suppliers_service import SuppliersService


def make_server(database: str = "parts.db") -> APIServer:
    """A server of its own for each test, as `server` is for everybody else.

    The service of suppliers runs in the same process, so that one command starts all of it.
    """
    table, service = PartsTable(database), SuppliersService()

    def start(client: Client) -> None:
        service.start()

    def stop(client: Client) -> None:
        service.stop()
        table.close()

    serve = [Parts(table), Suppliers(lambda: service.url)]
    return APIServer(serve=serve, on_start=start, on_stop=stop, name="adapter")


server = make_server()

if __name__ == "__main__":
    server.main()
