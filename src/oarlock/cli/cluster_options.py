"""The options of the commands that ask a cluster: those they share, and those of ``oarlock run`` and ``doctor``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oarlock.cli.loading import ControllersArgument
from oarlock.controllers.running.leases import LeaseTimes
from oarlock.meta.dataclass import dataclass
from oarlock.server.options.groups.generic import LogOptions
from oarlock.server.options.option import OptionGroup, Problem, argument, option
from oarlock.server.options.types import BooleanType, DurationType, PathType, StringType


@dataclass(frozen=True, kw_only=True, repr=False)
class ClusterOptions(OptionGroup):
    """Which cluster, as which user."""

    title = ""

    kubeconfig: Path | None = option(
        None,
        PathType(),
        "The kubeconfig to use; by default KUBECONFIG, a pod's service account, or ~/.kube/config.",
        in_file=False,
    )
    context: str = option("", StringType("NAME"), "The context of the kubeconfig to use.", in_file=False)


@dataclass(frozen=True, kw_only=True, repr=False)
class DoctorOptions(ClusterOptions):
    """The options of ``oarlock doctor``."""

    title = ""

    api_service: str = argument(
        StringType("VERSION.GROUP"), "The APIService to check. By default all that name a Service.", default=""
    )
    webhooks: str = option(
        "",
        StringType("NAME"),
        "Check the webhooks whose configurations have this name instead, and the definitions that they convert.",
        in_file=False,
    )

    def check(self) -> Iterator[Problem]:
        if self.webhooks and self.api_service:
            yield Problem("webhooks", "are looked at alone: leave out the APIService")


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelOptions(ClusterOptions):
    """The options of ``oarlock model``."""

    title = ""

    source: str = argument(
        StringType("FILE|PLURAL.GROUP"),
        "CustomResourceDefinitions or an OpenAPI v3 document in a file, - for stdin; or a resource of a cluster.",
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class ElectionOptions(OptionGroup):
    """How controllers share their work with those of other processes; the options are kube-controller-manager's."""

    title = ""

    leader_elect: bool = option(
        False, BooleanType(), "Reconcile only while this process holds a Lease. For several processes.", in_file=False
    )
    leader_elect_resource_name: str = option(
        "", StringType("NAME"), "The name of the Lease; by default that of the file.", in_file=False
    )
    leader_elect_resource_namespace: str = option(
        "", StringType("NAME"), "The namespace of the Lease; by default that of the context.", in_file=False
    )
    leader_elect_lease_duration_s: float = option(
        15.0,
        DurationType(positive=True),
        "How long other processes wait for a renewal before they take the Lease.",
        in_file=False,
    )
    leader_elect_renew_deadline_s: float = option(
        10.0,
        DurationType(positive=True),
        "How long the holder tries to renew the Lease before it stops leading.",
        in_file=False,
    )
    leader_elect_retry_period_s: float = option(
        2.0, DurationType(positive=True), "How long to wait between attempts to get or renew the Lease.", in_file=False
    )

    def check(self) -> Iterator[Problem]:
        try:
            self.times()
        except ValueError as error:
            yield Problem("leader_elect_lease_duration_s", str(error))

    def times(self) -> LeaseTimes:
        """The times of the election. Raises ValueError."""
        duration_s = self.leader_elect_lease_duration_s
        if duration_s != int(duration_s):
            raise ValueError("a lease lasts for whole seconds")
        return LeaseTimes(int(duration_s), self.leader_elect_renew_deadline_s, self.leader_elect_retry_period_s)


@dataclass(frozen=True, kw_only=True, repr=False)
class RunOptions(ControllersArgument, LogOptions, ClusterOptions, ElectionOptions):
    """The options of ``oarlock run``; those of the election are kube-controller-manager's."""

    title = ""

    namespace: str = option("", StringType("NAME"), "Reconcile only objects of this namespace.", in_file=False)
    graceful_shutdown_timeout_s: float = option(
        30.0,
        DurationType(),
        "How long running reconciles may take to finish at SIGTERM.",
        in_file=False,
    )
    metrics_bind_address: str = option(
        "",
        StringType("ADDRESS:PORT"),
        "Serve /metrics and /healthz at this address, without TLS.",
        in_file=False,
    )
    webhooks: bool = option(
        False,
        BooleanType(),
        "Serve the webhooks of the declared classes in the same process, as oarlock webhooks --controllers does.",
        in_file=False,
    )
    webhooks_config: Path | None = option(
        None,
        PathType(),
        "The server's options for --webhooks, as a file that oarlock config prints.",
        in_file=False,
    )

    def check(self) -> Iterator[Problem]:
        if self.webhooks_config is not None and not self.webhooks:
            yield Problem("webhooks_config", "counts only with `webhooks`")
        if self.webhooks and self.namespace:
            yield Problem("namespace", "webhooks are asked about every namespace: leave it out")
        if self.webhooks and self.metrics_bind_address:
            yield Problem("metrics_bind_address", "webhooks have a page of metrics of their own: leave it out")
