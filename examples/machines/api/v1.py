"""inventory.example.com/v1 Machine: what clients see of a row of the inventory."""

from __future__ import annotations

from typing import Annotated

from oarlock import Column, Doc, Ge, Le, Model, Pattern, Resource


class MachineSpec(Model):
    """What the machine is to be."""

    rack: Annotated[str, Pattern("^[a-z][0-9]+$"), Doc("Where it stands.")]
    cores: Annotated[int, Ge(1), Le(512)] = 4
    powered: bool = False


class MachineStatus(Model):
    """What the inventory knows of it."""

    boots: Annotated[int, Doc("How often it was started.")] = 0


class Machine(
    Resource,
    group="inventory.example.com",
    version="v1",
    scope="Cluster",
    short_names=["ma"],
    selectable=[".spec.rack"],
    columns=[
        Column("Rack", ".spec.rack"),
        Column("Cores", ".spec.cores", "integer"),
        Column("Powered", ".spec.powered", "boolean"),
        Column("Boots", ".status.boots", "integer"),
    ],
):
    """A machine in a rack."""

    spec: MachineSpec
    status: MachineStatus = MachineStatus()
