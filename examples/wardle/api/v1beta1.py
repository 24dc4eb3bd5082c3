"""wardle.example.com/v1beta1: the version the server's own code works with."""

from __future__ import annotations

from typing import Annotated

from oarlock import Column, Doc, Model, OmitEmpty, Resource


class FlunderSpec(Model):
    """What a flunder points at."""

    flunder_reference: Annotated[str, OmitEmpty, Doc("The name of a flunder.")] = ""
    fischer_reference: Annotated[str, OmitEmpty, Doc("The name of a fischer.")] = ""
    reference_type: Annotated[str, OmitEmpty, Doc("Which of the two is meant: Flunder or Fischer.")] = ""


class FlunderStatus(Model):
    """Nothing is known about flunders yet."""


CREATED_AT = Column("Created At", ".metadata.creationTimestamp", "date", relative=False)
"""What the Kubernetes sample server shows where oarlock would show an age."""


class Flunder(
    Resource,
    group="wardle.example.com",
    version="v1beta1",
    name_rule="path-segment",
    generation=False,
    columns=[CREATED_AT],
):
    """A flunder points at another flunder, or at a fischer."""

    spec: FlunderSpec = FlunderSpec()
    status: FlunderStatus = FlunderStatus()
