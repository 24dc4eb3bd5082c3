"""Conditions of a CustomResourceDefinition: finding and setting them. Pure.

Source: apiextensions.k8s.io/v1 CustomResourceDefinitionCondition.
"""

from __future__ import annotations

from datetime import UTC, datetime

from oarlock.apps.kinds.apiextensions import CustomResourceDefinition, CustomResourceDefinitionCondition
from oarlock.meta.dataclass import dataclass

NAMES_ACCEPTED = "NamesAccepted"
ESTABLISHED = "Established"
NON_STRUCTURAL = "NonStructuralSchema"
TERMINATING = "Terminating"
APPROVAL = "KubernetesAPIApprovalPolicyConformant"


@dataclass(frozen=True, slots=True)
class ConditionValue:
    """What a condition says. `status` is True, False or Unknown."""

    type: str
    status: str
    reason: str
    message: str


def condition_of(crd: CustomResourceDefinition, type: str) -> CustomResourceDefinitionCondition | None:
    """The condition of this type, or None."""
    return next((condition for condition in crd.status.conditions or () if condition.type == type), None)


def is_true(crd: CustomResourceDefinition, type: str) -> bool:
    """Whether the definition has this condition, and it is True."""
    condition = condition_of(crd, type)
    return condition is not None and condition.status == "True"


def set_condition(crd: CustomResourceDefinition, value: ConditionValue, now: float) -> None:
    """Let the definition have the condition. Its time is kept unless its status changes."""
    condition = condition_of(crd, value.type)
    if condition is None:
        condition = CustomResourceDefinitionCondition(type=value.type)
        crd.status.conditions = [*(crd.status.conditions or ()), condition]
    if condition.status != value.status:
        condition.status = value.status
        condition.last_transition_time = datetime.fromtimestamp(int(now), UTC)
    condition.reason, condition.message = value.reason, value.message


def take_off(crd: CustomResourceDefinition, type: str) -> None:
    """Let the definition not have the condition."""
    if condition_of(crd, type) is not None:
        crd.status.conditions = [condition for condition in crd.status.conditions or () if condition.type != type]
