"""Short ways to write the columns of Kubernetes' own kinds, whose cells ``apps.workloads.printing`` computes."""

from __future__ import annotations

from oarlock.schema.definition import Column

__all__ = ["age", "flag", "number", "text"]


def text(name: str, description: str = "", *, wide: bool = False) -> Column:
    """A column of texts; a `wide` one is shown with ``-o wide``."""
    return Column(name, description=description, priority=int(wide))


def number(name: str, description: str = "", *, wide: bool = False) -> Column:
    """A column of whole numbers."""
    return Column(name, type="integer", description=description, priority=int(wide))


def flag(name: str, description: str = "") -> Column:
    """A column of true and false."""
    return Column(name, type="boolean", description=description)


def age() -> Column:
    """The age of the object."""
    return Column("Age", ".metadata.creationTimestamp", "age")
