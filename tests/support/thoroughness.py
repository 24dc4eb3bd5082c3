"""How much a test run does: the quick one after each change, or the thorough one of ``make test-all``.

Hypothesis' examples are the same each time. Deadlines are off: machines are slow at times, and that is no failure.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

__all__ = ["THOROUGH", "examples", "load_profile", "rounds"]

THOROUGH = os.environ.get("OARLOCK_THOROUGH", "") not in ("", "0")
"""Whether everything is done that there is to do."""

QUICK_EXAMPLES, THOROUGH_EXAMPLES = 25, 100
QUICK_FAULTS = {"OARLOCK_FAULT_EVENTS": "150", "OARLOCK_FAULT_POINTS": "2", "OARLOCK_FAULT_PAUSE_S": "1"}
"""What the suites and tests of faults do, unless the environment says it or they are to be thorough."""


def load_profile() -> None:
    """What ``@given`` does where a test says nothing else. It has to be called before tests are imported."""
    number = THOROUGH_EXAMPLES if THOROUGH else QUICK_EXAMPLES
    settings.register_profile("oarlock", max_examples=number, derandomize=True, deadline=None)
    settings.load_profile("oarlock")
    if not THOROUGH:
        os.environ.update(QUICK_FAULTS | os.environ)


def rounds(thorough: int, quick: int = QUICK_EXAMPLES) -> int:
    """`thorough`, or no more than `quick` after each change."""
    return thorough if THOROUGH else min(quick, thorough)


def examples(thorough: int, quick: int = QUICK_EXAMPLES, **others: Any) -> settings:
    """The settings of a test that searches among so many examples; `others` are settings of Hypothesis."""
    return settings(max_examples=rounds(thorough, quick), **others)
