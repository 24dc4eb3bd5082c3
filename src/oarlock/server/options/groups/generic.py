"""Options of every server: processes, limits of requests, shutdown, features, and the rules of a cluster in front."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import re2

from oarlock.endpoints.routing.index import KUBERNETES, ServerVersion, version_parts
from oarlock.meta.dataclass import dataclass
from oarlock.server.about import VERSION
from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import (
    BooleanType,
    DurationType,
    FractionType,
    IntegerType,
    PathType,
    SeparateListType,
    SizeType,
    StringListType,
    StringType,
)

_MIB = 1024 * 1024
MAX_WORKERS = 64


@dataclass(frozen=True, kw_only=True, repr=False)
class GenericOptions(OptionGroup):
    title = "Generic"

    workers: int = option(
        1,
        IntegerType(minimum=1, maximum=MAX_WORKERS),
        "Serve with this number of processes on one port and one store. Limits apply to each process.",
    )
    request_timeout_s: float = option(
        60.0,
        DurationType(positive=True),
        "How long a request may take, except watches. A client may set a shorter time with ?timeout=.",
    )
    max_read_only_in_flight: int = option(
        400,
        IntegerType(minimum=1),
        "How many reading requests are executed at a time, except watches. Others are answered with 429. With "
        "priority and fairness, the sum of the two limits is the number of seats.",
        flag="max-requests-inflight",
    )
    max_mutating_in_flight: int = option(
        200,
        IntegerType(minimum=1),
        "How many writing requests are executed at a time. Others are answered with 429.",
        flag="max-mutating-requests-inflight",
    )
    enable_priority_and_fairness: bool | None = option(
        None,
        BooleanType(),
        "Queue requests by priority level and flow instead of refusing them. By default on if FlowSchemas are served, "
        "and with --kubeconfig.",
    )
    max_request_bytes: int = option(3 * _MIB, SizeType(), "Refuse larger request bodies with 413.")
    max_unsent_bytes: int = option(
        256 * _MIB,
        SizeType(),
        "How much unread data is kept for all clients together. Beyond it, requests are answered with 429, and "
        "the slowest readers are disconnected.",
    )
    shutdown_delay_s: float = option(
        0.0,
        DurationType(),
        "How long the server goes on serving at shutdown while /readyz fails.",
        flag="shutdown-delay-duration",
    )


def _origin(text: str) -> str:
    """A pattern of an origin. Raises ValueError."""
    try:
        re2.compile(text)
    except re2.error:
        raise ValueError(f"{text} isn't a regular expression: write ^https://app[.]example[.]com$") from None
    if not text:
        raise ValueError("an empty pattern would allow every origin: write .* to allow every origin")
    return text


def _directive(text: str) -> str:
    """A directive of Strict-Transport-Security. Raises ValueError."""
    seconds = text.removeprefix("max-age=")
    if text in ("includeSubDomains", "preload") or (seconds != text and seconds.isascii() and seconds.isdigit()):
        return text
    raise ValueError(f"{text} isn't a directive: write max-age=31536000,includeSubDomains,preload")


def _scope(text: str) -> str:
    """A scope of OAuth 2.0. Raises ValueError."""
    if re.fullmatch(r"[!#-\[\]-~]+", text) is None:
        raise ValueError(f"{text} isn't a scope: write openid,email,groups")
    return text


@dataclass(frozen=True, kw_only=True, repr=False)
class FeatureOptions(OptionGroup):
    title = "Features"

    cors_allowed_origins: tuple[str, ...] = option(
        (),
        SeparateListType("PATTERN", _origin),
        "Allow pages of origins that match this regular expression to read answers. Anchor it: "
        "^https://app[.]com$. Repeat it for more.",
    )
    strict_transport_security_directives: tuple[str, ...] = option(
        (),
        StringListType("DIRECTIVES", _directive),
        "Send this Strict-Transport-Security header, for example max-age=31536000,includeSubDomains,preload.",
    )
    goaway_chance: float = option(
        0.0,
        FractionType("CHANCE", maximum=0.02),
        "The probability that a request ends its HTTP/2 connection, so that clients are spread over servers again.",
    )
    profiling: bool = option(
        False,
        BooleanType(),
        "Serve /debug/pprof (stacks of threads and tasks, CPU profiles) to users whom authorization permits it.",
    )
    debug_pages: bool = option(
        False,
        BooleanType(),
        "Serve /configz, /flagz and /statusz (options in force, state of the process) to users whom authorization "
        "permits it.",
    )

    openapi_ui: bool = option(
        False,
        BooleanType(),
        "Serve Swagger UI at /openapi/ui, from files of the package. It calls the API with the token that is entered.",
    )

    def check(self) -> Iterator[Problem]:
        directives = self.strict_transport_security_directives
        if directives and not any(directive.startswith("max-age=") for directive in directives):
            yield Problem("strict_transport_security_directives", "needs max-age=SECONDS")


@dataclass(frozen=True, kw_only=True, repr=False)
class ConsoleOptions(OptionGroup):
    title = "Console"

    console: bool = option(
        False,
        BooleanType(),
        "Serve a web page at /console in which users see and change objects, within their permissions.",
    )
    console_scopes: tuple[str, ...] = option(
        ("openid", "profile", "email"),
        StringListType("SCOPES", _scope),
        "The scopes that the console requests from the issuer of --oidc-issuer-url at login.",
        flag="console-oidc-scopes",
        file_field="consoleOIDCScopes",
    )

    def check(self) -> Iterator[Problem]:
        if "openid" not in self.console_scopes:
            yield Problem("console_scopes", "needs openid, without which an issuer gives no ID token")


@dataclass(frozen=True, kw_only=True, repr=False)
class VersionOptions(OptionGroup):
    title = "Version"

    kubernetes_version: str = option(
        KUBERNETES,
        StringType("VERSION"),
        "The Kubernetes version at /version, which helm's kubeVersion and kubectl's version skew check.",
    )
    emulated_version: str = option(
        "", StringType("VERSION"), "The emulated version at /version. By default --kubernetes-version."
    )
    min_compatibility_version: str = option(
        "",
        StringType("VERSION"),
        "The oldest compatible version at /version. By default one minor version before the emulated one.",
    )

    def check(self) -> Iterator[Problem]:
        parsed: list[tuple[str, tuple[int, int]]] = []
        for name in ("kubernetes_version", "emulated_version", "min_compatibility_version"):
            text = _plain(getattr(self, name))
            try:
                parsed += [(name, version_parts(text)[:2])] if text or name == "kubernetes_version" else []
            except ValueError as error:
                yield Problem(name, str(error))
                return
        for (above, newer), (below, older) in pairwise(parsed):
            if older > newer:
                yield Problem(below, f"is newer than `{above}`")

    @property
    def version(self) -> ServerVersion:
        """What ``/version`` says."""
        return ServerVersion(
            VERSION,
            self.kubernetes_version,
            _plain(self.emulated_version),
            _plain(self.min_compatibility_version),
        )


def _plain(text: str) -> str:
    """The version alone: kube-apiserver takes ``kube=1.35`` too."""
    return text.removeprefix("kube=")


@dataclass(frozen=True, kw_only=True, repr=False)
class LogOptions(OptionGroup):
    title = "Logs"

    verbosity: int = option(
        0,
        IntegerType("LEVEL", maximum=10),
        "The verbosity of the log on stderr: 0 warnings and errors, 1 what the server does, 3 every request, 4 "
        "everything.",
        flag="v",
        short="v",
        file_field="verbosity",
    )


CLUSTER_PLUGINS: Final = (
    "NamespaceLifecycle",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
)
"""The admission plugins that go by the objects of a cluster, in their order."""

_NAMES = ", ".join(CLUSTER_PLUGINS)


@dataclass(frozen=True, kw_only=True, repr=False)
class ClusterRulesOptions(OptionGroup):
    title = "Rules of a cluster"

    cluster_kubeconfig: Path | None = option(
        None,
        PathType(),
        "Apply the admission rules of the cluster of this kubeconfig to what is written here: its namespaces, "
        "policies, webhooks and quotas. in-cluster is the cluster of the pod.",
        flag="kubeconfig",
    )
    cluster_rules_max_age_s: float = option(
        60.0,
        DurationType(positive=True),
        "How long the rules that are known apply while that cluster can't be reached. After that writes are refused.",
    )
    enable_admission_plugins: tuple[str, ...] = option(
        (),
        StringListType("PLUGINS"),
        f"Run these admission plugins. With --kubeconfig all are on by default: {_NAMES}.",
    )
    disable_admission_plugins: tuple[str, ...] = option(
        (),
        StringListType("PLUGINS"),
        "Don't run these admission plugins: those of --enable-admission-plugins, or the server's own, by their names.",
    )

    def check(self) -> Iterator[Problem]:
        if self.cluster_kubeconfig is None:
            for name in ("enable_admission_plugins", "disable_admission_plugins"):
                if getattr(self, name):
                    yield Problem(name, "has no effect without `cluster_kubeconfig`")
        for name in sorted({*self.enable_admission_plugins} & {*self.disable_admission_plugins}):
            yield Problem("enable_admission_plugins", f"{name} is in `disable_admission_plugins` too")
