"""Everything hello serves, and nothing else: the whole wiring.

oarlock serve examples/hello/server.py
"""

from __future__ import annotations

from oarlock import APIServer

from .api import v1
from .foos import Foos
from .greetings import Greetings

server = APIServer(serve=[Foos, v1.Foo, Greetings])

if __name__ == "__main__":
    server.main()
