"""`ClusterPlugins`: the admission plugins of a control plane, for a server that follows the objects of a cluster.

See also: `cluster`, which keeps their informers current; `part` and `policy_part`, the same plugins on the own store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from oarlock.apps.admission.mutation_plugin import MutatingPolicies
from oarlock.apps.admission.part import StoredWebhooks
from oarlock.apps.admission.policy_params import ParamReader, kinds_served_at
from oarlock.apps.admission.policy_plugin import ValidatingPolicies
from oarlock.apps.controllers.quota.charging import Charge, QuotaLedger
from oarlock.apps.controllers.quota.limiting import QuotaAdmission
from oarlock.apps.controlplane.collections.namespaces import NamespaceLifecycle
from oarlock.apps.kinds.admissionregistration import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    MutatingWebhookConfiguration,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
)
from oarlock.apps.kinds.core.objects import Namespace
from oarlock.apps.kinds.quotas import ResourceQuota
from oarlock.client.client import Client
from oarlock.client.informers.informer import Informer
from oarlock.client.transport import TransportError
from oarlock.client.webhooks import WebhookCalls
from oarlock.meta.errors import Forbidden, NotFound, ServiceUnavailable, StatusError
from oarlock.policy.admission.chain import AdmissionPlugin
from oarlock.policy.admission.counts import AdmissionCounts
from oarlock.policy.admission.expressions import ExpressionRunner
from oarlock.policy.admission.plugin import AnyPlugin
from oarlock.policy.admission.webhooks.plugins import MutatingAdmissionWebhook, ValidatingAdmissionWebhook
from oarlock.policy.authz.authorizer import AccessRule

_FOLLOW = ("get", "list", "watch")
_REGISTRATION = "admissionregistration.k8s.io"
_SERVICES = (
    AccessRule(("get",), ("",), ("services", "endpoints")),
    AccessRule(("list",), ("discovery.k8s.io",), ("endpointslices",)),
)


def _policies(sort: str) -> AccessRule:
    return AccessRule(_FOLLOW, (_REGISTRATION,), (f"{sort}admissionpolicies", f"{sort}admissionpolicybindings"))


def _webhooks(sort: str) -> AccessRule:
    return AccessRule(_FOLLOW, (_REGISTRATION,), (f"{sort}webhookconfigurations",))


_RIGHTS: Mapping[str, tuple[AccessRule, ...]] = {
    "NamespaceLifecycle": (),
    "MutatingAdmissionPolicy": (_policies("mutating"),),
    "MutatingAdmissionWebhook": (_webhooks("mutating"), *_SERVICES),
    "ValidatingAdmissionPolicy": (_policies("validating"),),
    "ValidatingAdmissionWebhook": (_webhooks("validating"), *_SERVICES),
    "ResourceQuota": (
        AccessRule(_FOLLOW, ("",), ("resourcequotas",)),
        AccessRule(("update",), ("",), ("resourcequotas/status",)),
    ),
}


def rights_of(names: Sequence[str]) -> Sequence[AccessRule]:
    """What the plugins of these names do in the cluster, but the parameters of policies: those may be of any kind."""
    needed = [rule for name in names for rule in _RIGHTS[name]]
    return [*dict.fromkeys([AccessRule(_FOLLOW, ("",), ("namespaces",)), *needed])] if names else []


class _ClusterNamespaces(NamespaceLifecycle):
    """A namespace that isn't known is asked for: it may have been created a moment ago."""

    name = "NamespaceLifecycle"
    waits = True

    def __init__(self, namespaces: Informer[Namespace], cluster: Client) -> None:
        super().__init__(namespaces)
        self._cluster = cluster

    async def _look_up(self, name: str) -> Namespace | None:
        try:
            return await self._cluster.get(Namespace, name)
        except NotFound:
            return None
        except (TransportError, StatusError) as error:
            why = f"the cluster doesn't tell whether the namespace {name} exists: {error}"
            raise ServiceUnavailable(why) from None


class _ClusterLedger(QuotaLedger):
    """Charges quotas of the cluster, whose own controller counts the objects of every server behind it."""

    def __init__(self, cluster: Client) -> None:
        super().__init__()
        self.client = cluster

    async def _charge(self, namespace: str, charges: list[Charge]) -> dict[int, StatusError]:
        try:
            return await super()._charge(namespace, charges)
        except (NotFound, Forbidden) as error:  # of the quotas, not of the object
            why = f"the cluster doesn't let the quotas of the namespace {namespace} be charged: {error.message}"
            raise ServiceUnavailable(why) from None


class ClusterPlugins:
    """The plugins by their names, over `cluster`; webhooks are asked by `calls`. They read `informers`."""

    def __init__(self, cluster: Client, calls: WebhookCalls, runner: ExpressionRunner, counts: AdmissionCounts) -> None:
        self.informers: list[Informer[Any]] = []
        self._cluster = cluster
        self._calls = calls
        self._runner = runner
        self._counts = counts
        self._namespaces = self._followed(Namespace)
        self._params = ParamReader(kinds_served_at(cluster))
        self._params.client = cluster

    def made(self, names: Iterable[str]) -> Iterator[AnyPlugin]:
        """The plugins of these names, with the informers that they need."""
        makers: Mapping[str, Callable[[], AnyPlugin]] = {
            "NamespaceLifecycle": lambda: _ClusterNamespaces(self._namespaces, self._cluster),
            "MutatingAdmissionPolicy": self._mutating_policies,
            "MutatingAdmissionWebhook": self._mutating_webhooks,
            "ValidatingAdmissionPolicy": self._validating_policies,
            "ValidatingAdmissionWebhook": self._validating_webhooks,
            "ResourceQuota": lambda: QuotaAdmission(self._followed(ResourceQuota), _ClusterLedger(self._cluster)),
        }
        for name in names:
            yield makers[name]()

    def _followed(self, kind: type[Any]) -> Informer[Any]:
        informer: Informer[Any] = Informer(kind)
        self.informers.append(informer)
        return informer

    def _mutating_policies(self) -> AdmissionPlugin:
        kinds = self._followed(MutatingAdmissionPolicy), self._followed(MutatingAdmissionPolicyBinding)
        return MutatingPolicies(*kinds, self._namespaces, self._runner, self._params, self._counts.policies)

    def _validating_policies(self) -> AdmissionPlugin:
        kinds = self._followed(ValidatingAdmissionPolicy), self._followed(ValidatingAdmissionPolicyBinding)
        return ValidatingPolicies(*kinds, self._namespaces, self._runner, self._params, self._counts.policies)

    def _mutating_webhooks(self) -> AdmissionPlugin:
        hooks = StoredWebhooks(self._followed(MutatingWebhookConfiguration))
        return MutatingAdmissionWebhook(hooks, self._calls, self._labels, self._runner, self._counts)

    def _validating_webhooks(self) -> AdmissionPlugin:
        hooks = StoredWebhooks(self._followed(ValidatingWebhookConfiguration))
        return ValidatingAdmissionWebhook(hooks, self._calls, self._labels, self._runner, self._counts)

    def _labels(self, namespace: str) -> Mapping[str, str]:
        known = self._namespaces.get(namespace)
        return {} if known is None else known.metadata.labels or {}
