"""Rigs: masts and shrouds are told apart by name, flags by nothing."""

from __future__ import annotations

from typing import Annotated

from oarlock import APIServer, ListMap, Model, PatchMerge, Resource


class Mast(Model):
    """One mast."""

    name: str
    sails: int = 1


class RigSpec(Model):
    """What a rig is made of."""

    masts: Annotated[list[Mast], ListMap("name")] = []
    flags: list[Mast] = []
    notes: Annotated[list[str], PatchMerge()] = []


class Rig(Resource, group="rigs.example.com", version="v1"):
    """A rig."""

    spec: RigSpec


app = APIServer(serve=[Rig])
