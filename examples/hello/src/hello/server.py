"""Everything that is served: the whole wiring.

oarlock serve src/hello/server.py
"""

from oarlock import APIServer

from .api.v1.foo import Foo as FooV1
from .collections.foos import Foos
from .collections.greetings import Greetings


def make_server() -> APIServer:
    """A server of its own for each test, as `server` is for everybody else."""
    return APIServer(serve=[Foos, FooV1, Greetings()], name="hello")


server = make_server()

if __name__ == "__main__":
    server.main()
