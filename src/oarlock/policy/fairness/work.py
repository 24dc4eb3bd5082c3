"""`Work`: how many seats a request takes, and for how long; estimated before it is carried out.

A list takes a seat for each hundred objects it reads, and so does a watch that begins with the objects; a write that
many watches will be told of takes seats for a little longer than itself; everything else takes one.
Must not know: how objects are counted. Source: KEP-1040, "Width of requests"; k8s.io/apiserver
``util/flowcontrol/request``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field

from oarlock.meta.dataclass import dataclass

OBJECTS_PER_SEAT = 100
WATCHES_PER_SEAT = 10
EVENT_S = 0.005
"""How long a seat is taken for the watches of an event, after the request."""
MOST_SEATS = 10
ESTIMATED_S = 0.003
"""How long a request is presumed to take, until it is known."""


@dataclass(frozen=True, slots=True)
class Work:
    """`seats` while a request is carried out, then `final_seats` for `final_s` more.

    `most` seats are reserved all the time; `estimate` is the work in seat-seconds.
    """

    seats: int = 1
    final_seats: int = 0
    final_s: float = 0.0
    most: int = field(init=False)
    estimate: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "most", max(self.seats, self.final_seats))
        object.__setattr__(self, "estimate", self.seats * ESTIMATED_S + self.final_seats * self.final_s)

    def within(self, limit: int) -> Work:
        """The same work after the request, on no more than `limit` seats."""
        if self.final_seats <= limit or not limit:
            return self
        return Work(self.seats, limit, self.final_seats * self.final_s / limit)


NARROW = Work()
"""The work of nearly every request: one seat."""


def list_work(stored: int, options: Sequence[tuple[str, str]], most_seats: int, *, watch: bool, named: bool) -> Work:
    """The work of a list or a watch of a resource of which `stored` objects exist, with the `options` of its query.

    `most_seats` is what its level allows for one request. A list with a name reads one object.
    """
    given = dict(reversed(options))  # the first value of each counts
    if named or (watch and not _begins_with_objects(given)):
        return NARROW
    limit = _positive(given.get("limit", "")) if not watch else 0
    scans = bool(given.get("fieldSelector") or given.get("labelSelector"))
    objects = min(stored, limit) if limit and not scans else stored
    seats = math.ceil(objects / OBJECTS_PER_SEAT)
    return _BY_SEATS[max(1, min(seats, most_seats, MOST_SEATS))]


def _begins_with_objects(options: Mapping[str, str]) -> bool:
    """Whether a watch sends the existing objects first."""
    requested = options.get("sendInitialEvents")
    return requested.lower() in ("true", "1") if requested else options.get("resourceVersion", "") in ("", "0")


def write_work(watches: int, most_seats: int) -> Work:
    """The work of a write whose event goes to so many `watches`."""
    if watches < WATCHES_PER_SEAT:
        return NARROW
    seats = math.ceil(watches / WATCHES_PER_SEAT)
    narrowed = max(1, min(seats, most_seats, MOST_SEATS))
    return Work(1, narrowed, seats * EVENT_S / narrowed)


_BY_SEATS = (NARROW, NARROW, *(Work(seats) for seats in range(2, MOST_SEATS + 1)))


def _positive(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0
