"""`ServerFairness`: what limits the requests of a server that are carried out at a time, by its options and catalog."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from oarlock.endpoints.catalog import Catalog
from oarlock.policy.fairness.engine import Fairness
from oarlock.server.config import ServerConfig
from oarlock.server.fairness.feed import GROUP, KINDS, FairnessFeed
from oarlock.server.fairness.pages import FairnessPages
from oarlock.server.filters.fairness import FairnessFilter
from oarlock.server.filters.max_in_flight import MaxInFlight

if TYPE_CHECKING:
    from oarlock.client.clock import TimerClock

__all__ = ["ServerFairness"]


class ServerFairness:
    """`in_flight` is the filter. With priority and fairness there are `pages` about it.

    `count` says how many objects of a group and resource are stored.
    """

    def __init__(
        self, catalog: Catalog, config: ServerConfig, clock: TimerClock, count: Callable[[str, str], int | None]
    ) -> None:
        self.in_flight: MaxInFlight | FairnessFilter
        self.pages: FairnessPages | None = None
        self._feed: FairnessFeed | None = None
        wanted = config.enable_priority_and_fairness
        if not (wanted or (wanted is None and _serves_flow_schemas(catalog))):
            self.in_flight = MaxInFlight(config.max_read_only_in_flight, config.max_mutating_in_flight)
            return
        seats = config.max_read_only_in_flight + config.max_mutating_in_flight
        fairness = Fairness(seats, clock.monotonic)
        self.in_flight = FairnessFilter(fairness, clock, count, config.request_timeout_s)
        self.pages = FairnessPages(fairness, clock)
        self._feed = FairnessFeed(fairness)

    def attach(self, resources: Mapping[tuple[str, str], Any]) -> None:
        """Be configured by what is in these resources from now on."""
        if self._feed is not None:
            self._feed.attach(resources)

    def upkeep(self) -> Coroutine[Any, Any, None] | None:
        """What is to run in the background while the server runs."""
        if self._feed is None or not isinstance(self.in_flight, FairnessFilter):
            return None
        return self.in_flight.run(self._feed.renew)


def _serves_flow_schemas(catalog: Catalog) -> bool:
    """Whether priority and fairness can be configured by objects."""
    group = catalog.groups.get(GROUP)
    return group is not None and all(plural in group.resources for plural in KINDS)
