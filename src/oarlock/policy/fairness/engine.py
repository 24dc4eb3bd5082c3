"""`Fairness`: the priority levels and flow schemas of a server, and which of them a request belongs to.

Pure: it is called with requests (`flow_of`, then `PriorityLevel.arrive` and `leave`), with its configuration
(`configure`), and when time has passed (`rebalance`, `next_turn`, `tick`).
Must not know: HTTP, tasks, where the configuration comes from. See also: `level`, where requests wait;
``server.filters.fairness``, which asks. Source: KEP-1040; k8s.io/apiserver ``util/flowcontrol``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from oarlock.meta.context import Target, User
from oarlock.meta.json_trees import ReadOnlyTree
from oarlock.meta.memo import Memo
from oarlock.policy.fairness import builtin
from oarlock.policy.fairness.borrowing import SeatClaim, SeatLimits, divide, nominal_limits
from oarlock.policy.fairness.level import Flow, PriorityLevel, SharedBounds
from oarlock.policy.fairness.settings import (
    CATCH_ALL,
    BrokenSettings,
    LevelSettings,
    SchemaMatcher,
    SchemaSettings,
    compile_schema,
    in_order,
)
from oarlock.policy.fairness.work import NARROW

log = logging.getLogger("oarlock.fairness")

REBALANCE_S = 10.0
"""How often seats are lent and borrowed anew."""

WAITING_BYTES = 128 * 1024 * 1024
"""What all requests that wait may take together."""
_REQUEST_BYTES = 32 * 1024
"""What a request that waits is presumed to take: its connection's share, its headers, its task."""

_FLOWS_BYTES = 4 * 1024 * 1024
_FLOW_BYTES = 1200
_SHORT_BYTES = 512
"""A flow of longer texts isn't kept with its routes, each of which may keep another."""
_READING = frozenset({"get", "head", "options", "connect", "proxy"})


class Fairness:
    """The levels of a server that has `total` seats. `monotonic` is its clock.

    Begins with the mandatory and suggested objects; `configure` replaces them by those that are stored.
    """

    def __init__(self, total: int, monotonic: Callable[[], float], *, waiting_bytes: int = WAITING_BYTES) -> None:
        self.total = total
        self.levels: dict[str, PriorityLevel] = {}
        self.fair_fraction = 0.0
        """The part of its target that each level got when seats were last divided."""
        self.shared = SharedBounds(waiting_bytes // _REQUEST_BYTES)
        self._monotonic = monotonic
        self.generation = object()
        """Another object after every change of what requests belong to."""
        self._turns = 0
        self._matchers: list[SchemaMatcher] = []
        self._flows: Memo[tuple[Any, ...], Flow] = Memo(_FLOWS_BYTES, entry_bytes=_FLOW_BYTES, per_byte=3)
        self.known_flow = self._flows.get
        """The flow under a key of `flow_of`, if it is remembered; asked with every request."""
        self.configure(
            (*builtin.MANDATORY_LEVELS, *builtin.SUGGESTED_LEVELS),
            (*builtin.MANDATORY_SCHEMAS, *builtin.SUGGESTED_SCHEMAS),
        )

    # Which

    def flow_of(self, key: tuple[Any, ...], user: User, target: Target, path: str) -> Flow:
        """The flow of a request, remembered under `key`: what of the user, the target and the path matters here."""
        for matcher in self._matchers:
            if matcher.matches(user, target, path):
                break
        else:  # a user who is in no group; the last one is for everybody
            matcher = next(matcher for matcher in self._matchers if matcher.settings.name == CATCH_ALL)
        flow = Flow(
            self.levels[matcher.settings.level], matcher.settings, matcher.distinguisher(user, target), target.verb
        )
        if flow.level.settings.exempt or target.verb in _READING or not target.resource:
            flow.work = NARROW
        flow.generation = self.generation
        text_bytes = len(user.name) + sum(map(len, user.groups)) + len(path) + len(target.namespace)
        flow.user_name = user.name
        flow.groups = user.groups if text_bytes <= _SHORT_BYTES else None
        self._flows.put(key, flow, text_bytes)
        return flow

    # Configuration

    def configure(self, levels: Iterable[ReadOnlyTree], schemas: Iterable[ReadOnlyTree]) -> None:
        """Use these objects from now on. What is broken, or refers to no level, is left out; requests go on.

        The mandatory ones are there in any case. A level that is left out ends when its last request does.
        """
        settings = {
            level_settings.name: level_settings
            for level_settings in _read(builtin.MANDATORY_LEVELS, LevelSettings.read)
        }
        settings |= {level_settings.name: level_settings for level_settings in _read(levels, LevelSettings.read)}
        now_leaving = {name: level for name, level in self.levels.items() if name not in settings and not level.is_idle}
        shares = {setting.name: setting.shares for setting in settings.values()}
        shares |= {name: level.settings.shares for name, level in now_leaving.items()}
        all_shares = sum(shares.values())
        before, self.levels = self.levels, {}
        for name, setting in settings.items():
            limits = self._limits(setting, all_shares)
            level = before.get(name)
            if level is None:
                level = PriorityLevel(setting, limits, self.shared, self._monotonic)
            level.settings, level.limits, level.is_leaving = setting, limits, False
            self.levels[name] = level
        for name, level in now_leaving.items():
            level.limits, level.is_leaving = self._limits(level.settings, all_shares), True
            self.levels[name] = level
        self._use(schemas, settings.keys())
        self._divide()

    def _limits(self, settings: LevelSettings, all_shares: int) -> SeatLimits:
        share, lend, borrow = settings.shares, settings.lendable_percent, settings.borrowing_percent
        return nominal_limits(self.total, share, all_shares, lend, borrow)

    def _use(self, schemas: Iterable[ReadOnlyTree], levels: Iterable[str]) -> None:
        known = set(levels)
        matchers = {schema.name: schema for schema in _read(builtin.MANDATORY_SCHEMAS, SchemaSettings.read)}
        for schema in _read(schemas, SchemaSettings.read):
            if schema.level in known:
                matchers[schema.name] = schema
        self._matchers = in_order(map(compile_schema, matchers.values()))
        for level in self.levels.values():
            level.forget_counts(matchers)
        self._flows.drop(lambda flow: True)
        self.generation = object()

    # Time

    def rebalance(self) -> None:
        """Divide the seats again, by what each level has needed since the last division. Called every `REBALANCE_S`."""
        for level in self.levels.values():
            level.tick()
            level.demand.end_period()
        self.levels = {name: level for name, level in self.levels.items() if not level.is_leaving or not level.is_idle}
        self._divide()

    def next_turn(self) -> None:
        """A turn of the event loop has begun in which one wide request may begin."""
        self.shared.is_taken = False
        waiting = [level for level in self.levels.values() if level.waiting]
        self._turns += 1
        first = self._turns % len(waiting) if waiting else 0
        for level in waiting[first:] + waiting[:first]:  # none is always the first
            level.tick()

    def tick(self) -> None:
        """Begin what can begin by now."""
        for level in self.levels.values():
            level.tick()

    @property
    def due(self) -> float | None:
        """When `tick` should be called next; None when nothing changes by itself."""
        times = [due for level in self.levels.values() if (due := level.due) is not None]
        return min(times, default=None)

    def _divide(self) -> None:
        """Set the present limit of every level."""
        exempt = [level for level in self.levels.values() if level.settings.exempt]
        limited = [level for level in self.levels.values() if not level.settings.exempt]
        total = sum(level.limits.nominal for level in self.levels.values())
        for level in exempt:
            level.limit = max(level.limits.minimum, level.demand.figures.most)
        rest = total - sum(level.limit for level in exempt)
        claims = [_claim(level) for level in limited]
        least = sum(level.limits.minimum for level in limited)
        needed = sum(claim.least for claim in claims)
        parts: list[float]
        if rest <= least:
            parts, self.fair_fraction = [level.limits.minimum for level in limited], 0.0
        elif rest <= needed:
            share = (rest - least) / (needed - least)
            pairs = zip(limited, claims, strict=True)
            parts = [level.limits.minimum + (claim.least - level.limits.minimum) * share for level, claim in pairs]
            self.fair_fraction = 0.0
        else:
            parts, self.fair_fraction = divide(rest, claims)
        for level, claim, part in zip(limited, claims, parts, strict=True):
            level.target = claim.target
            level.limit = int(part + 0.5)
            level.tick()


def _claim(level: PriorityLevel) -> SeatClaim:
    """The seats that a level claims: at least its recent peak, up to its nominal seats; at best what it would use."""
    limits, figures = level.limits, level.demand.figures
    least = max(limits.minimum, min(limits.nominal, figures.most))
    return SeatClaim(least, limits.maximum, max(least, figures.smoothed))


def _read(trees: Iterable[ReadOnlyTree], read: Callable[[ReadOnlyTree], Any]) -> Iterable[Any]:
    for tree in trees:
        try:
            yield read(tree)
        except BrokenSettings as error:
            metadata = tree.get("metadata")
            name = metadata.get("name", "") if isinstance(metadata, dict) else ""
            log.error("%s %s is ignored: %s", tree.get("kind", "an object"), name, error)
