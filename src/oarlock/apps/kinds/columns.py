"""The columns that many of Kubernetes' kinds have."""

from __future__ import annotations

from oarlock.schema.definition import Column

__all__ = ["AGE"]

AGE = Column("Age", ".metadata.creationTimestamp", "age")
