"""podlogs.example.com/v1: computer as clients see them."""

from oarlock import Model, Resource


class ComputerSpec(Model):
    """What is wanted."""

    greeting: str


class Computer(
    Resource,
    group="podlogs.example.com",
    version="v1",
):
    """A computer."""

    spec: ComputerSpec
