"""`AdmissionCounts`: what is counted of admission. Must not know: how the numbers are printed.

Names, labels and buckets are kube-apiserver's. Source: k8s.io/apiserver ``admission/metrics``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from time import perf_counter
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from oarlock.meta.metrics import Histogram, MetricFamily, histogram_of, histograms

MOST_NAMES = 1000
OTHER = "other"
"""Stands for a name when `MOST_NAMES` others are counted."""


class BoundedNames:
    """The names that are counted: the first ones to come."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: set[Hashable] = set()

    def admits(self, name: Hashable) -> bool:
        """Whether `name` is one of them. If not, count it as `OTHER`."""
        if name not in self._names:
            if len(self._names) >= MOST_NAMES:
                return False
            self._names.add(name)
        return True


POLICY_BOUNDS_S = (0.0000005, 0.001, 0.01, 0.1, 1.0)

PolicyError = Literal["no_error", "invalid_error", "out_of_budget"]
Enforcement = Literal["deny", "warn", "audit", "allow", ""]
"""What is done about a validation that isn't fulfilled; ``allow`` for one that failed and is ignored. Empty for a
mutation."""


class PolicyCheck(NamedTuple):
    """Of which expressions something is counted: those of a policy for a binding, by what came of them."""

    policy: str
    binding: str
    error: PolicyError
    action: Enforcement = ""


class PolicyFamilies(NamedTuple):
    """The metrics of one kind of policies: how long expressions took, and how many there were."""

    times: MetricFamily
    total: MetricFamily


class PolicyCounts:
    """The numbers of one server."""

    def __init__(self) -> None:
        self.checks: defaultdict[PolicyCheck, Histogram] = histograms(POLICY_BOUNDS_S)
        self._names = BoundedNames()

    def checked(self, check: PolicyCheck, seconds: float) -> None:
        """An expression was evaluated, in so many seconds."""
        if not self._names.admits((check.policy, check.binding)):
            check = check._replace(policy=OTHER, binding=OTHER)
        self.checks[check].add(seconds)

    def families(self) -> tuple[PolicyFamilies, PolicyFamilies]:
        """What has been counted, as metrics: of policies that validate, and of those that mutate."""
        return (
            _families(
                "apiserver_validating_admission_policy",
                {tuple(check): times for check, times in self.checks.items() if check.action},
                ("policy", "policy_binding", "error_type", "enforcement_action"),
                (
                    "How long a validation took that wasn't fulfilled, in seconds.",
                    "Validations of policies that weren't fulfilled, by what was done.",
                ),
            ),
            _families(
                "apiserver_mutating_admission_policy",
                {tuple(check[:-1]): times for check, times in self.checks.items() if not check.action},
                ("policy", "policy_binding", "error_type"),
                ("How long a mutation took, in seconds.", "Mutations of policies."),
            ),
        )


def _families(
    prefix: str, checks: dict[tuple[str, ...], Histogram], labels: tuple[str, ...], about: tuple[str, str]
) -> PolicyFamilies:
    counts = {check: times.count for check, times in checks.items()}
    return PolicyFamilies(
        histogram_of(f"{prefix}_check_duration_seconds", about[0], labels, checks, POLICY_BOUNDS_S),
        MetricFamily(f"{prefix}_check_total", about[1], counts, labels, "counter"),
    )


PLUGIN_BOUNDS_S = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
WEBHOOK_BOUNDS_S = (*PLUGIN_BOUNDS_S, 10.0, 25.0)
LARGEST_CODE = 600

_STEP = ("type", "operation", "rejected")
_CALL = ("name", "type", "operation")
_WEBHOOK = "apiserver_admission_webhook"

ErrorType = Literal["calling_webhook_error", "apiserver_internal_error", "no_error"]


class CallLabels(NamedTuple):
    """The labels of a webhook's metrics: its name, the step and the operation."""

    name: str
    type: str
    operation: str


class StepLabels(NamedTuple):
    """Of which plugin something is counted; without a name, of all in a step. `rejected` is ``true`` or ``false``."""

    name: str
    type: str
    operation: str
    rejected: str


class AdmissionCounts:
    """The admission metrics of one server."""

    def __init__(self) -> None:
        self.plugins: dict[StepLabels, Histogram] = {}
        self.webhooks: dict[StepLabels, Histogram] = {}
        self.requests: Counter[tuple[CallLabels, str, str]] = Counter()
        """Calls of webhooks, by the code of the answer and whether that refused the request."""
        self.rejections: Counter[tuple[CallLabels, ErrorType, str]] = Counter()
        self.open_failures: Counter[tuple[str, str]] = Counter()
        """Calls that failed and refused nothing, by the webhook's name and the step."""
        self.policies = PolicyCounts()
        self._names = BoundedNames()

    def step(self, kind: str, operation: str, *, whole: bool = True) -> TimedStep:
        """Measures a step, ``admit`` or ``validate``, and each plugin in it; not `whole`, only the plugins."""
        return TimedStep(self.plugins, kind, operation, whole, perf_counter())

    def called(self, call: CallLabels, seconds: float, code: int, rejected: ErrorType | None = None) -> None:
        """A webhook was called; `rejected` says why the request is refused, if it is. A `code` of 0 is none."""
        call = self._bounded(call)
        shown, flag = str(min(code, LARGEST_CODE)), "false" if rejected is None else "true"
        _add(self.webhooks, (*call, flag), WEBHOOK_BOUNDS_S, seconds)
        self.requests[call, shown, flag] += 1
        if rejected is not None:
            self.rejections[call, rejected, shown] += 1

    def failed_open(self, call: CallLabels) -> None:
        """A webhook that failed was left out."""
        call = self._bounded(call)
        self.open_failures[call.name, call.type] += 1

    def families(self) -> Iterator[MetricFamily]:
        """What has been counted, as metrics."""
        seconds, prefix = "_admission_duration_seconds", "apiserver_admission"
        steps = {labels[1:]: times for labels, times in self.plugins.items() if not labels.name}
        plugins = {labels: times for labels, times in self.plugins.items() if labels.name}
        about = "How long a step of admission took, in seconds."
        yield histogram_of(f"{prefix}_step{seconds}", about, _STEP, steps, PLUGIN_BOUNDS_S)
        about = "How long an admission plugin took, in seconds."
        yield histogram_of(f"{prefix}_controller{seconds}", about, (*_CALL, "rejected"), plugins, PLUGIN_BOUNDS_S)
        about = "How long an admission webhook took, in seconds."
        yield histogram_of(_WEBHOOK + seconds, about, (*_CALL, "rejected"), self.webhooks, WEBHOOK_BOUNDS_S)
        checks, mutations = self.policies.families()
        yield from (checks.times, mutations.times)
        calls = {(*call, code, rejected): count for (call, code, rejected), count in self.requests.items()}
        labels = (*_CALL, "code", "rejected")
        yield MetricFamily(f"{_WEBHOOK}_request_total", "Calls of admission webhooks.", calls, labels, "counter")
        kept_out = {(*call, error, code): count for (call, error, code), count in self.rejections.items()}
        about, labels = "Requests that a webhook kept out.", (*_CALL, "error_type", "rejection_code")
        yield MetricFamily(f"{_WEBHOOK}_rejection_count", about, kept_out, labels, "untyped")
        yield from (checks.total, mutations.total)
        about = "Calls that failed and were left out."
        open_failures = dict(self.open_failures)
        yield MetricFamily(f"{_WEBHOOK}_fail_open_count", about, open_failures, ("name", "type"), "untyped")

    def _bounded(self, call: CallLabels) -> CallLabels:
        return call if self._names.admits(call.name) else call._replace(name=OTHER)


class TimedStep(Struct, eq=False):
    """A step of admission; an exception that it ends with refuses the request."""

    _times: dict[StepLabels, Histogram]
    _kind: str
    _operation: str
    _whole: bool
    _began: float
    _plugin: str = ""
    _since: float = 0.0

    def __enter__(self) -> TimedStep:
        return self

    def begins(self, plugin: str) -> None:
        """The plugin of this name begins; the one before has ended."""
        now = perf_counter()
        if self._plugin:
            labels = self._plugin, self._kind, self._operation, "false"
            _add(self._times, labels, PLUGIN_BOUNDS_S, now - self._since)
        self._plugin, self._since = plugin, now

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        now, rejected = perf_counter(), "false" if error is None else "true"
        if self._plugin:
            labels = self._plugin, self._kind, self._operation, rejected
            _add(self._times, labels, PLUGIN_BOUNDS_S, now - self._since)
        if self._whole:
            _add(self._times, ("", self._kind, self._operation, rejected), PLUGIN_BOUNDS_S, now - self._began)


def _add(times: dict[StepLabels, Histogram], labels: Any, bounds_s: tuple[float, ...], seconds: float) -> None:
    """`labels` are a plain tuple, which is made for less; it is equal to its `StepLabels`."""
    found = times.get(labels)
    if found is None:
        found = times[StepLabels(*labels)] = Histogram(bounds_s)
    found.add(seconds)
