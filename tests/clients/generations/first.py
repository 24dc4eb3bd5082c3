"""The server that came first: it knows of no other version."""

from __future__ import annotations

from oarlock import APIServer, Model, Resource


class CupSpec(Model):
    """What is wanted."""

    size: int = 250
    mug: bool = True


class Cup(Resource, group="cups.example.com", version="v1"):
    """A cup."""

    spec: CupSpec = CupSpec()


app = APIServer(serve=[Cup])
