"""Short ways to write the columns of Kubernetes' own kinds. See also: `cells`."""

from __future__ import annotations

from oarlock.schema.definition import Column, Scale

__all__ = ["POD_COLUMNS", "REPLICAS", "age", "flag", "number", "text"]


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


POD_COLUMNS = (text("Containers", wide=True), text("Images", wide=True), text("Selector", wide=True))
"""The last columns of a kind that makes pods of a template."""

REPLICAS = Scale(".spec.replicas", ".status.replicas", ".spec.selector")
"""Where the numbers of pods are in a kind that has so many of them."""
