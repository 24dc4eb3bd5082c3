"""``/healthz``, ``/livez`` and ``/readyz``, with ``?verbose`` and ``?exclude=``, and one path for each check.

Checks have Kubernetes' names where it has the same, so that probes and scripts written for it work: ``etcd`` is the
store, whichever it is. Each tests something of its own. Clients only get the names of failed checks; the reason is in
the log.
Must not know: what is served. Source: k8s.io/apiserver ``server/healthz``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote
from oarlock.meta.options_parse import parse_query
from oarlock.server.filters.filter import plain

log = logging.getLogger("oarlock.health")

Probe = Literal["healthz", "livez", "readyz"]
PROBES: tuple[Probe, ...] = ("healthz", "livez", "readyz")

HealthTest = Callable[[], Awaitable[str]]
"""Returns what is wrong, ``""`` if nothing is."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A named test, and the probes it is part of."""

    name: str
    test: HealthTest
    probes: Sequence[Probe] = PROBES


class CheckResults:
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


async def log_is_written() -> str:
    """Fails while what was logged can't be written, because the disk is full or stderr is closed."""
    logger: logging.Logger | None = log
    while logger is not None:
        for handler in logger.handlers:
            try:
                handler.flush()
            except (OSError, ValueError) as error:
                return f"the log can't be written: {error}"
        logger = logger.parent if logger.propagate else None
    return ""


def when(ready: Callable[[], bool], otherwise: str) -> HealthTest:
    """Passes if `ready()`; else `otherwise` is the reason."""

    async def test() -> str:
        return "" if ready() else otherwise

    return test


def in_time(call: Callable[[], Awaitable[object]], seconds: float) -> HealthTest:
    """Passes if `call` ends within this time without raising."""

    async def test() -> str:
        task = asyncio.ensure_future(call())
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            task.cancel()
            return f"no answer within {seconds:g} s"
        error = task.exception()
        return "" if error is None else str(error) or type(error).__name__

    return test


@dataclass(frozen=True, slots=True)
class HealthConditions:
    """The state of a server that the checks test.

    `store`: it answers. `cache`: it has everything that is in the store. `integrity`: no damage was found. `served`:
    the catalog is. `started`, by the name of the check: what must have ended or begun for the server to be ready.
    """

    store: HealthTest
    cache: HealthTest
    integrity: HealthTest
    served: Callable[[], bool]
    shutting_down: Callable[[], bool]
    started: Mapping[str, Callable[[], bool]]
    cluster_rules: HealthTest | None = None


def checks_of(conditions: HealthConditions) -> list[HealthCheck]:
    """The checks of every server, in the order they are printed."""
    return [
        HealthCheck("ping", always),
        HealthCheck("log", log_is_written),
        HealthCheck("etcd", conditions.store),
        HealthCheck("etcd-readiness", conditions.store, ("readyz",)),
        HealthCheck("storage-integrity", conditions.integrity, ("readyz",)),
        HealthCheck("informer-sync", conditions.cache, ("readyz",)),
        HealthCheck("poststarthook/serve-catalog", when(conditions.served, "not finished")),
        *(
            HealthCheck(f"poststarthook/{name}", when(started, "not finished"))
            for name, started in conditions.started.items()
        ),
        *(HealthCheck("cluster-rules", test, ("readyz",)) for test in (conditions.cluster_rules,) if test is not None),
        HealthCheck("shutdown", when(lambda: not conditions.shutting_down(), "process is shutting down"), ("readyz",)),
    ]


class Health:
    """Answers the probes and their checks, and counts results."""

    def __init__(self, checks: Iterable[HealthCheck]) -> None:
        self._probes: dict[str, tuple[Probe, list[HealthCheck]]] = {}
        self._single: dict[str, tuple[Probe, HealthCheck]] = {}
        self.results: dict[tuple[str, Probe], CheckResults] = {}
        self._logged: dict[Probe, str] = {}
        checks = list(checks)
        for probe in PROBES:
            of_probe = [check for check in checks if probe in check.probes]
            self._probes[f"/{probe}"] = (probe, of_probe)
            self._single.update({f"/{probe}/{check.name}": (probe, check) for check in of_probe})
            self.results.update({(check.name, probe): CheckResults() for check in of_probe})

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that is answered, for the index."""
        return (*self._probes, *self._single)

    async def respond(self, state: RequestState) -> Response | None:
        """The answer, or None for a path that isn't in `paths`."""
        path = state.request.path
        probe = self._probes.get(path)
        if probe is not None:
            return await self._probe_response(*probe, state.request.query)
        single = self._single.get(path)
        if single is None:
            return None
        reason = await self._test(*single)
        if reason:
            return plain(500, f"internal server error: {reason}\n")
        return Response(200, [("content-type", "text/plain; charset=utf-8")], b"ok")

    async def _test(self, probe: Probe, check: HealthCheck) -> str:
        reason = await check.test()
        self.results[check.name, probe].add(well=not reason)
        return reason

    def _log_change(self, probe: Probe, failed: str) -> None:
        """Log a change of the result only: probes come every few seconds."""
        if failed and self._logged.get(probe, "") != failed:
            log.warning("%s check failed: %s", probe, failed)
        self._logged[probe] = failed

    async def _probe_response(self, probe: Probe, checks: Sequence[HealthCheck], query: str) -> Response:
        pairs = parse_query(query)
        excluded = list(dict.fromkeys(value for key, value in pairs if key == "exclude"))
        tested = [check for check in checks if check.name not in excluded]
        results = dict(zip(tested, await asyncio.gather(*(self._test(probe, check) for check in tested)), strict=True))
        lines: list[str] = []
        failed: list[str] = []
        for check in checks:
            reason = results.get(check)
            if reason is None:
                excluded.remove(check.name)
                lines.append(f"[+]{check.name} excluded: ok\n")
            elif reason:
                failed.append(f"{check.name}: {reason}")
                lines.append(f"[-]{check.name} failed: reason withheld\n")
            else:
                lines.append(f"[+]{check.name} ok\n")
        if excluded:
            names = ",".join(quote(name) for name in excluded)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        self._log_change(probe, "; ".join(failed))
        if failed:
            return plain(500, "".join(lines) + f"{probe} check failed\n")
        if any(key == "verbose" for key, _ in pairs):
            return plain(200, "".join(lines) + f"{probe} check passed\n")
        return plain(200, "ok")
