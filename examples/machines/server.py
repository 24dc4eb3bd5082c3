"""Everything machines serves, and nothing else: the whole wiring.

oarlock serve examples/machines/server.py
"""

from __future__ import annotations

from oarlock import APIServer

from .inventory import Inventory
from .machines import Machines

server = APIServer(serve=[Machines(Inventory("inventory.db"))])

if __name__ == "__main__":
    server.main()
