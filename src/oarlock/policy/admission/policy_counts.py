"""`PolicyCounts`: what is counted of policies in CEL. Must not know: how the numbers are printed.

Names, labels and buckets are kube-apiserver's. Source: k8s.io/apiserver
``admission/plugin/policy/validating/metrics`` and ``…/mutating/metrics``.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from oarlock.meta.metrics import Histogram, MetricFamily, histogram_of
from oarlock.policy.admission.bounded_names import OTHER, BoundedNames

__all__ = ["POLICY_BOUNDS_S", "Enforcement", "PolicyCheck", "PolicyCounts", "PolicyError", "PolicyFamilies"]

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


class PolicyFamilies(NamedTuple):
    """The metrics of one kind of policies: how long expressions took, and how many there were."""

    times: MetricFamily
    total: MetricFamily


class PolicyCounts:
    """The numbers of one server."""

    def __init__(self) -> None:
        self.checks: dict[PolicyCheck, Histogram] = {}
        self._names = BoundedNames()

    def checked(self, check: PolicyCheck, seconds: float) -> None:
        """An expression was evaluated, in so many seconds."""
        if not self._names.admits((check.policy, check.binding)):
            check = check._replace(policy=OTHER, binding=OTHER)
        times = self.checks.get(check)
        if times is None:
            times = self.checks[check] = Histogram(POLICY_BOUNDS_S)
        times.add(seconds)

    def families(self) -> tuple[PolicyFamilies, PolicyFamilies]:
        """What has been counted, as metrics: of policies that validate, and of those that mutate."""
        return (
            _families(
                "apiserver_validating_admission_policy",
                {tuple(check): times for check, times in self.checks.items() if check.action},
                ("policy", "policy_binding", "error_type", "enforcement_action"),
                (
                    "How long a validation took that wasn't fulfilled, in seconds.",
                    "Validations of policies that weren't fulfilled, by what was done.",
                ),
            ),
            _families(
                "apiserver_mutating_admission_policy",
                {tuple(check[:-1]): times for check, times in self.checks.items() if not check.action},
                ("policy", "policy_binding", "error_type"),
                ("How long a mutation took, in seconds.", "Mutations of policies."),
            ),
        )


def _families(
    prefix: str, checks: dict[tuple[str, ...], Histogram], labels: tuple[str, ...], about: tuple[str, str]
) -> PolicyFamilies:
    counts = {check: times.count for check, times in checks.items()}
    return PolicyFamilies(
        histogram_of(f"{prefix}_check_duration_seconds", about[0], labels, checks, POLICY_BOUNDS_S),
        MetricFamily(f"{prefix}_check_total", about[1], counts, labels, "counter"),
    )
