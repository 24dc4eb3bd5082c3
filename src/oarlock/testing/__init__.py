"""What users import in their tests: the real server in memory, a clock they move, and contract suites.

Nothing here is a double of our own code: `server.InMemory` runs the whole chain, only without sockets.
Names are loaded when first used, because some need hypothesis.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oarlock.testing.roundtrips import LossyRoundTrip, assert_round_trips

__all__ = ["LossyRoundTrip", "assert_round_trips"]

# a visible __getattr__ would make type checkers accept any name
if not TYPE_CHECKING:
    _WHERE = {"LossyRoundTrip": "roundtrips", "assert_round_trips": "roundtrips"}

    def __getattr__(name: str) -> object:
        if name not in _WHERE:
            raise AttributeError(f"module 'oarlock.testing' has no attribute {name!r}")
        return getattr(importlib.import_module(f"oarlock.testing.{_WHERE[name]}"), name)
