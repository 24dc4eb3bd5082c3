"""RE2 patterns for numbers, times and durations that are strings on the wire.

For types that JSON doesn't have. See also: `foreign_pydantic` and `foreign_dataclass`, which publish them.
Source: ISO 8601 and RFC 3339 for durations and times.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DECIMAL", "DURATION", "TIME"]

DECIMAL: Final = r"^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$"

_AMOUNT = r"[0-9]+(\.[0-9]+)?"
DURATION: Final = (
    f"^[-+]?P(({_AMOUNT}Y)?({_AMOUNT}M)?({_AMOUNT}W)?({_AMOUNT}D)?(T({_AMOUNT}H)?({_AMOUNT}M)?({_AMOUNT}S)?)?)$"
)

TIME: Final = r"^[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[-+][0-9]{2}:?[0-9]{2})?$"
