"""Everything that is served, and the controller that works beside it: the whole wiring.

oarlock serve databases/server.py
"""

from __future__ import annotations

from oarlock import APIServer

from .api import v1, v1beta1
from .controller import controllers

server = APIServer(serve=[v1.Database, v1beta1.Database], controllers=controllers, name="databases")

if __name__ == "__main__":
    server.main()
