"""`PolicyCounts`: what is counted of policies in CEL. Must not know: how the numbers are shown.

Labels and buckets are kube-apiserver's. Source: k8s.io/apiserver ``admission/plugin/policy/validating/metrics`` and
``…/mutating/metrics``.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from oarlock.meta.samples import Samples
from oarlock.policy.admission.bounded_names import OTHER, BoundedNames

__all__ = ["POLICY_BOUNDS_S", "Enforcement", "PolicyCheck", "PolicyCounts", "PolicyError"]

POLICY_BOUNDS_S = (0.0000005, 0.001, 0.01, 0.1, 1.0)

PolicyError = Literal["no_error", "invalid_error", "out_of_budget"]
Enforcement = Literal["deny", "warn", "audit", "allow", ""]
"""What is done about a validation that isn't fulfilled; ``allow`` for one that failed and is ignored. Empty for a
mutation."""


class PolicyCheck(NamedTuple):
    """Of which expressions something is counted: those of a policy for a binding, by what came of them."""

    policy: str
    binding: str
    error: PolicyError
    action: Enforcement = ""


class PolicyCounts:
    """The numbers of one server."""

    def __init__(self) -> None:
        self.checks: dict[PolicyCheck, Samples] = {}
        self._names = BoundedNames()

    def checked(self, check: PolicyCheck, seconds: float) -> None:
        """An expression was evaluated, in so many seconds."""
        if not self._names.admits((check.policy, check.binding)):
            check = check._replace(policy=OTHER, binding=OTHER)
        times = self.checks.get(check)
        if times is None:
            times = self.checks[check] = Samples(POLICY_BOUNDS_S)
        times.add(seconds)
