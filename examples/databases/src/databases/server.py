"""Everything that is served, and the controller that works beside it: the whole wiring.

oarlock serve src/databases/server.py
"""

from collections.abc import Sequence
from typing import Any

from oarlock import APIServer

from .api.v1beta1.database import Database as DatabaseV1beta1
from .collections.databases import Databases
from .controllers.database import controllers


def make_server(controllers: Sequence[Any] = ()) -> APIServer:
    """A server of its own for each test, as `server` is for everybody else."""
    return APIServer(serve=[Databases, DatabaseV1beta1], controllers=controllers, name="databases")


server = make_server(controllers)

if __name__ == "__main__":
    server.main()
