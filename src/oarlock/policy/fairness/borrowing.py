"""How seats are divided among priority levels, by their shares and then by what each has lately needed.

A level that needs few seats lends the lendable part of its nominal seats; others that need more borrow it. Pure
functions. Source: KEP-1040, "Dispatching"; k8s.io/apiserver ``util/flowcontrol/conc_alloc``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from oarlock.meta.dataclass import dataclass

LEAST_TARGET = 0.001


@dataclass(frozen=True, slots=True)
class SeatLimits:
    """The seats of a level: by its shares, after lending all it may, after borrowing all it may."""

    nominal: int
    minimum: int
    maximum: int

    @property
    def initial(self) -> int:
        """The limit of a level of which nothing is known yet."""
        return self.nominal - (self.nominal - self.minimum) // 2


@dataclass(frozen=True, slots=True)
class SeatClaim:
    """What a level needs: `target` seats, and between `least` and `most` of them in any case."""

    least: float
    most: float
    target: float


def nominal_limits(
    total: int, shares: int, all_shares: int, lendable_percent: int, borrowing_percent: int | None
) -> SeatLimits:
    """The limits of a level that has `shares` of `all_shares` of a server with `total` seats.

    Rounded up, so that all levels together may have a few more than `total`.
    """
    nominal = math.ceil(total * shares / all_shares) if all_shares else 0
    borrowed = total if borrowing_percent is None else _rounded(nominal * borrowing_percent / 100)
    return SeatLimits(nominal, nominal - _rounded(nominal * lendable_percent / 100), nominal + borrowed)


def divide(total: float, claims: Sequence[SeatClaim]) -> tuple[list[float], float]:
    """`total` seats divided among `claims`, and the fraction of its target that each got, as far as its bounds allow.

    The sum of the parts is `total` if the bounds can have that sum; else it is the nearest that they can have.
    """
    if not claims:
        return [], 0.0
    targets = [max(claim.target, LEAST_TARGET) for claim in claims]

    def parts(fraction: float) -> list[float]:
        pairs = zip(claims, targets, strict=True)
        return [max(claim.least, min(claim.most, fraction * target)) for claim, target in pairs]

    bounds = {
        bound / target for claim, target in zip(claims, targets, strict=True) for bound in (claim.least, claim.most)
    }
    # The sum of the parts grows with the fraction, on a straight line between two neighbouring bounds.
    below, sum_below = 0.0, sum(parts(0.0))
    for fraction in sorted(bounds):
        sum_here = sum(parts(fraction))
        if sum_here >= total:
            if sum_here > sum_below and total > sum_below:
                fraction = below + (fraction - below) * (total - sum_below) / (sum_here - sum_below)
            elif total <= sum_below:
                fraction = below
            return parts(fraction), fraction
        below, sum_below = fraction, sum_here
    return parts(below), below


def _rounded(number: float) -> int:
    """Half is rounded up."""
    return math.floor(number + 0.5)
