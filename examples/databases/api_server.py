"""The same without the controller, which is then a process of its own: ``oarlock run databases/controller.py``.

oarlock serve databases/api_server.py
"""

from __future__ import annotations

from oarlock import APIServer

from .api import v1, v1beta1

server = APIServer(serve=[v1.Database, v1beta1.Database], name="databases")

if __name__ == "__main__":
    server.main()
