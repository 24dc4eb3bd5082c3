"""Types that several groups use. Source: Kubernetes API reference, meta/v1."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from oarlock.schema.types.markers import Atomic, Format, NullIfAbsent, OmitEmpty
from oarlock.schema.types.shapes import Model

Text = Annotated[str, OmitEmpty]
"""A text that is left out when it is empty, as most are."""
Texts = Annotated[list[str], OmitEmpty, Atomic]
"""A list of texts that is left out when it is empty, and replaced as a whole."""
Int32 = Annotated[int, Format("int32")]


class LabelSelectorRequirement(Model):
    """What the label with a key must be: `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: Annotated[list[str], OmitEmpty, Atomic] = []


class LabelSelector(Model):
    """Which objects, by their labels; an empty one selects all."""

    match_labels: Annotated[dict[str, str], OmitEmpty] = {}
    match_expressions: Annotated[list[LabelSelectorRequirement], OmitEmpty, Atomic] = []


class MetaCondition(Model):
    """One aspect of an object's state."""

    type: str
    status: Text = ""
    last_transition_time: Annotated[datetime | None, NullIfAbsent] = None
    reason: Text = ""
    message: Text = ""
