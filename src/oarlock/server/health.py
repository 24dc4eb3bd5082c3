"""``/healthz``, ``/livez`` and ``/readyz``, with ``?verbose`` and ``?exclude=``, and one path for each check.

Checks have Kubernetes' names, so that probes and scripts written for it work: ``etcd`` is the store, whichever it is;
``storage-integrity`` is our own. Clients only get the names of failed checks; the reason is in the log.
Must not know: what is served. Source: k8s.io/apiserver ``server/healthz``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.gotext import quote
from oarlock.meta.options_parse import parse_query
from oarlock.server.filters.plain import plain

__all__ = ["Conditions", "Health", "HealthCheck", "Probe", "Tally", "always", "checks_of", "in_time", "when"]

log = logging.getLogger("oarlock.health")

Probe = Literal["healthz", "livez", "readyz"]
PROBES: tuple[Probe, ...] = ("healthz", "livez", "readyz")

STARTED: dict[str, Sequence[Probe]] = {
    "poststarthook/start-apiserver-admission-initializer": PROBES,
    "poststarthook/generic-apiserver-start-informers": PROBES,
    "informer-sync": ("readyz",),
    "poststarthook/max-in-flight-filter": PROBES,
    "poststarthook/storage-object-count-tracker-hook": PROBES,
}
"""What Kubernetes names the parts of a start, and their probes. Here they are one check: that it is finished."""

Test = Callable[[], Awaitable[str]]
"""Returns what is wrong, ``""`` if nothing is."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A named test, and the probes it is part of."""

    name: str
    test: Test
    probes: Sequence[Probe] = PROBES


class Tally:
    """How often a check passed and failed, and its last result (None: never run)."""

    __slots__ = ("failed", "last", "succeeded")

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0
        self.last: bool | None = None

    def add(self, *, well: bool) -> None:
        self.last = well
        self.succeeded += well
        self.failed += not well


async def always() -> str:
    """Always passes: the server can answer."""
    return ""


def when(ready: Callable[[], bool], otherwise: str) -> Test:
    """Passes if `ready()`; else `otherwise` is the reason."""

    async def test() -> str:
        return "" if ready() else otherwise

    return test


def in_time(call: Callable[[], Awaitable[object]], seconds: float) -> Test:
    """Passes if `call` ends within this time without raising."""

    async def test() -> str:
        asked = asyncio.ensure_future(call())
        done, _ = await asyncio.wait({asked}, timeout=seconds)
        if not done:
            asked.cancel()
            return f"no answer within {seconds:g} s"
        error = asked.exception()
        return "" if error is None else str(error) or type(error).__name__

    return test


@dataclass(frozen=True, slots=True)
class Conditions:
    """The state that the checks test. `hooks` are further named conditions, added to `started`.

    `sound` reports damage in the store; without it there is no such check.
    """

    store: Test
    started: Callable[[], bool]
    leaving: Callable[[], bool]
    hooks: Sequence[str] = ()
    sound: Test | None = None


def checks_of(conditions: Conditions) -> list[HealthCheck]:
    """The checks of every server, in the order they are printed."""
    started = when(conditions.started, "not finished")
    leaving = conditions.leaving
    return [
        HealthCheck("ping", always),
        HealthCheck("log", always),
        HealthCheck("etcd", conditions.store),
        HealthCheck("etcd-readiness", conditions.store, ("readyz",)),
        *([HealthCheck("storage-integrity", conditions.sound, ("readyz",))] if conditions.sound else ()),
        *(HealthCheck(name, started, probes) for name, probes in STARTED.items()),
        *(HealthCheck(f"poststarthook/{name}", started) for name in conditions.hooks),
        HealthCheck("shutdown", when(lambda: not leaving(), "process is shutting down"), ("readyz",)),
    ]


class Health:
    """Answers the probes and their checks, and counts results."""

    def __init__(self, checks: Iterable[HealthCheck]) -> None:
        self._probes: dict[str, tuple[Probe, list[HealthCheck]]] = {}
        self._single: dict[str, tuple[Probe, HealthCheck]] = {}
        self.tallies: dict[tuple[str, Probe], Tally] = {}
        self._told: dict[Probe, str] = {}
        checks = list(checks)
        for probe in PROBES:
            mine = [check for check in checks if probe in check.probes]
            self._probes[f"/{probe}"] = (probe, mine)
            self._single.update({f"/{probe}/{check.name}": (probe, check) for check in mine})
            self.tallies.update({(check.name, probe): Tally() for check in mine})

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that is answered, for the index."""
        return (*self._probes, *self._single)

    async def respond(self, state: RequestState) -> Response | None:
        """The answer, or None for a path that isn't in `paths`."""
        path = state.request.path
        whole = self._probes.get(path)
        if whole is not None:
            return await self._whole(whole[0], whole[1], state.request.query)
        single = self._single.get(path)
        if single is None:
            return None
        wrong = await self._test(*single)
        if wrong:
            return plain(500, f"internal server error: {wrong}\n")
        return Response(200, [("content-type", "text/plain; charset=utf-8")], b"ok")

    async def _test(self, probe: Probe, check: HealthCheck) -> str:
        wrong = await check.test()
        self.tallies[check.name, probe].add(well=not wrong)
        return wrong

    def _tell(self, probe: Probe, failed: str) -> None:
        """Log a change of the result only: probes come every few seconds."""
        if failed and self._told.get(probe, "") != failed:
            log.warning("%s check failed: %s", probe, failed)
        self._told[probe] = failed

    async def _whole(self, probe: Probe, checks: Sequence[HealthCheck], query: str) -> Response:
        pairs = parse_query(query)
        excluded = list(dict.fromkeys(value for key, value in pairs if key == "exclude"))
        lines: list[str] = []
        failed: list[str] = []
        for check in checks:
            if check.name in excluded:
                excluded.remove(check.name)
                lines.append(f"[+]{check.name} excluded: ok\n")
                continue
            wrong = await self._test(probe, check)
            if wrong:
                failed.append(f"{check.name}: {wrong}")
                lines.append(f"[-]{check.name} failed: reason withheld\n")
            else:
                lines.append(f"[+]{check.name} ok\n")
        if excluded:
            names = ",".join(quote(name) for name in excluded)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        self._tell(probe, "; ".join(failed))
        if failed:
            return plain(500, "".join(lines) + f"{probe} check failed\n")
        if any(key == "verbose" for key, _ in pairs):
            return plain(200, "".join(lines) + f"{probe} check passed\n")
        return plain(200, "ok")
