"""The server in between: it knows both versions, and writes the old one."""

from __future__ import annotations

from cups import Cup, OldCup

from oarlock import APIServer, StoredCollection


class Cups(StoredCollection[Cup], stored_as=OldCup, loses=["spec.handles"]):
    """Written as v1."""


app = APIServer(serve=[Cups])
