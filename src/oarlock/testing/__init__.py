"""The test kit for users: the real server in memory or on a port, a virtual clock, contract suites.

Nothing here is a mock: `InMemory` runs the whole filter chain, only without sockets. Names are loaded on first use,
because some need hypothesis or pytest, which ``pip install 'oarlock[testing]'`` installs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oarlock.testing.client import HTTPClient, InMemoryClient, TestClient
    from oarlock.testing.clock import VirtualClock
    from oarlock.testing.faults import Injected, RequestFault, RequestFaults
    from oarlock.testing.roundtrips import LossyRoundTrip, assert_round_trips
    from oarlock.testing.server import Answer, InMemory
    from oarlock.testing.thread import ServerThread

__all__ = [
    "Answer",
    "HTTPClient",
    "InMemory",
    "InMemoryClient",
    "Injected",
    "LossyRoundTrip",
    "RequestFault",
    "RequestFaults",
    "ServerThread",
    "TestClient",
    "VirtualClock",
    "assert_round_trips",
]

# a visible __getattr__ would make type checkers accept any name
if not TYPE_CHECKING:
    _WHERE = {
        "client": "HTTPClient InMemoryClient TestClient",
        "clock": "VirtualClock",
        "faults": "Injected RequestFault RequestFaults",
        "roundtrips": "LossyRoundTrip assert_round_trips",
        "server": "Answer InMemory",
        "thread": "ServerThread",
    }
    _MODULE_OF = {name: module for module, names in _WHERE.items() for name in names.split()}

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'oarlock.testing' has no attribute {name!r}")
        return getattr(importlib.import_module(f"oarlock.testing.{_MODULE_OF[name]}"), name)

    def __dir__() -> list[str]:
        return sorted(__all__)
