"""Types that several groups use. Source: Kubernetes API reference, meta/v1."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from oarlock.schema.types.markers import Atomic, NullIfAbsent, OmitEmpty
from oarlock.schema.types.shapes import Model

__all__ = ["Condition", "LabelSelector", "LabelSelectorRequirement", "Text"]

Text = Annotated[str, OmitEmpty]
"""A text that is left out when it is empty, as most are."""


class LabelSelectorRequirement(Model):
    """What the label with a key must be: `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: Annotated[list[str], OmitEmpty, Atomic] = []


class LabelSelector(Model):
    """Which objects, by their labels; an empty one selects all."""

    match_labels: Annotated[dict[str, str], OmitEmpty] = {}
    match_expressions: Annotated[list[LabelSelectorRequirement], OmitEmpty, Atomic] = []


class Condition(Model):
    """One aspect of an object's state."""

    type: str
    status: Text = ""
    last_transition_time: Annotated[datetime | None, NullIfAbsent] = None
    reason: Text = ""
    message: Text = ""
