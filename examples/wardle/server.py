"""Everything wardle serves, and nothing else: the whole wiring.

oarlock serve examples/wardle/server.py
"""

from __future__ import annotations

from oarlock import APIServer, Informer

from .admission import BanFlunder
from .api import v1alpha1
from .flunders import Flunders

fischers = Informer(v1alpha1.Fischer)

server = APIServer(
    serve=[Flunders, v1alpha1.Fischer],
    admission=[BanFlunder(fischers)],
    informers=[fischers],
    garbage_collection="external",
    name="sample-server",
)

if __name__ == "__main__":
    server.main()
