"""The columns that many of Kubernetes' kinds have."""

from __future__ import annotations

from oarlock.schema.definition import Column

AGE = Column("Age", ".metadata.creationTimestamp", "age")
