"""Everything that is served: the whole wiring.

oarlock serve src/two_servers/server.py
"""

from oarlock import APIServer

from .collections.orders import Orders


def make_server() -> APIServer:
    """A server of its own for each test, as `server` is for everybody else."""
    return APIServer(serve=[Orders], name="two-servers")


server = make_server()

if __name__ == "__main__":
    server.main()
