"""The server that has forgotten the old version."""

from __future__ import annotations

from cups import Cup

from oarlock import APIServer

app = APIServer(serve=[Cup])
