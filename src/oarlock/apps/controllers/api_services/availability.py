"""`Availability`: keeps the condition Available of APIServices: whether the server asks their backends.

See also: `forwarding`, which does. Source: k8s.io/kube-aggregator ``controllers/status``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from oarlock.apps.aggregation.backend import AVAILABLE, AggregatedVersion
from oarlock.apps.aggregation.locations import BackendUnavailable
from oarlock.apps.aggregation.trust import BackendTrust
from oarlock.apps.kinds.apiregistration import APIService, APIServiceCondition, APIServiceStatus
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey
from oarlock.controllers.results import Result
from oarlock.meta import errors
from oarlock.meta.metrics import MetricFamily
from oarlock.net.messages import HttpError

__all__ = ["Availability"]

CHECK_S, CHECK_BROKEN_S = 30.0, 2.0
TIMEOUT_S = 5.0
MOST_BYTES = 4 * 1024 * 1024

_METRIC = "aggregator_unavailable_apiservice"

LOCAL = ("True", "Local", "Local APIServices are always available")
PASSED = ("True", "Passed", "all checks passed")


class Availability(Controller[APIService], name="apiservice-status", concurrency=8, timeout_s=60):
    """Asks each backend for its version, as a client would, when something changes and every 30 s."""

    _clock: TimerClock

    def __init__(self, trust: BackendTrust) -> None:
        super().__init__()
        self._trust = trust
        self._available: dict[str, bool] = {}
        self._turns: Counter[tuple[str, str]] = Counter()

    def metrics(self) -> Sequence[MetricFamily]:
        unavailable = {(name,): float(not is_so) for name, is_so in self._available.items()}
        return (
            MetricFamily(_METRIC, "APIServices that aren't available: 1, else 0.", unavailable, ("name",)),
            MetricFamily(
                f"{_METRIC}_total",
                "How often an APIService ceased to be available, and why.",
                dict(self._turns),
                ("name", "reason"),
                "counter",
            ),
        )

    async def run(self, client: Client, clock: TimerClock) -> None:
        self._clock = clock
        self._available.clear()  # another server may have led meanwhile
        await super().run(client, clock)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        api_service = self.informer.get(key.name)
        if api_service is None:
            self._available.pop(key.name, None)
            for turn in [turn for turn in self._turns if turn[0] == key.name]:
                del self._turns[turn]
            return None
        if api_service.spec.service is None:
            await self._update_condition(api_service, *LOCAL)
            return None
        found = await self._checked(api_service)
        await self._update_condition(api_service, *found)
        return Result(CHECK_S if found == PASSED else CHECK_BROKEN_S)

    async def _checked(self, api_service: APIService) -> tuple[str, str, str]:
        """The status, the reason and the message of the condition."""
        backend = AggregatedVersion(api_service, self.client, self._trust)
        path = f"/apis/{api_service.spec.group}/{api_service.spec.version}"
        try:
            address = await backend.moved()
            url = f"https://{address.host}:{address.port}{path}"
            answer = await backend.ask(path, "application/json", most_bytes=MOST_BYTES, timeout_s=TIMEOUT_S)
        except BackendUnavailable as error:
            return error.status, error.reason, error.message
        except HttpError as error:
            why = f'Get "{url}": {error}'
            return "False", "FailedDiscoveryCheck", f"failing or missing response from {url}: {why}"
        finally:
            backend.close()
        if 200 <= answer.status < 300:
            return PASSED
        why = f"bad status from {url}: {answer.status}"
        return "False", "FailedDiscoveryCheck", f"failing or missing response from {url}: {why}"

    def _note(self, name: str, is_available: bool, reason: str, *, before: bool) -> None:
        """Count a turn once: `before`, what the informer knows, may be behind what this controller has found."""
        if self._available.get(name, before) and not is_available:
            self._turns[name, reason] += 1
        self._available[name] = is_available

    async def _update_condition(self, api_service: APIService, status: str, reason: str, message: str) -> None:
        known = next(
            (c for c in (api_service.status.conditions if api_service.status else ()) if c.type == AVAILABLE), None
        )
        self._note(
            api_service.metadata.name, status == "True", reason, before=known is not None and known.status == "True"
        )
        if known is not None and (known.status, known.reason, known.message) == (status, reason, message):
            return
        now = datetime.fromtimestamp(self._clock.now(), UTC).replace(microsecond=0)
        since = known.last_transition_time if known is not None and known.status == status else now
        condition = APIServiceCondition(
            type=AVAILABLE, status=status, last_transition_time=since, reason=reason, message=message
        )

        def change(live: APIService) -> None:
            others = [c for c in (live.status.conditions if live.status else ()) if c.type != AVAILABLE]
            live.status = APIServiceStatus(conditions=[*others, condition])

        try:
            await self.client.change(APIService, api_service.metadata.name, change, subresource="status")
        except errors.NotFound:
            pass  # somebody has deleted it
