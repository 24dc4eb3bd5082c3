"""What expressions may cost, in units of cel-go's cost tracker. Source: k8s.io/apiserver ``apis/cel``."""

from __future__ import annotations

__all__ = ["CALL_LIMIT", "CONDITION_BUDGET", "OBJECT_BUDGET", "OUT_OF_BUDGET"]

CALL_LIMIT = 1_000_000
"""What one evaluation of one expression may cost."""

OBJECT_BUDGET = 10_000_000
"""What all rules of one object may cost, or all validations of a policy."""

CONDITION_BUDGET = 2_500_000
"""What the match conditions of one webhook, policy or authorizer may cost together."""

OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
"""What is told when there is nothing left to spend."""
