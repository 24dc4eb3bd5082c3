"""The server that writes the new version, and still knows the old one."""

from __future__ import annotations

from cups import Cup, OldCup

from oarlock import APIServer

app = APIServer(serve=[Cup, OldCup])
