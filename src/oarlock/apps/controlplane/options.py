"""`ControlPlaneOptions`: the options that only a control plane has, and the defaults in which it differs from a server.

It issues tokens of service accounts, and lets authorization decide on requests without credentials, as kube-apiserver.
Importing this imports no part of a control plane. Admission plugins have Kubernetes' names, order and rules. A plugin
has the name of its class unless it has a ``name``. One of the control plane whose name isn't Kubernetes' can't be
switched: it is a part of what its kinds mean. Those of users can be disabled by name like Kubernetes'.
Texts are kube-apiserver's. See also: `control_plane`; ``policy.admission.plugin``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote
from oarlock.meta.kinds import BUILT_IN_GROUPS
from oarlock.policy.admission.chain import plugin_name
from oarlock.policy.admission.plugin import Admission, AnyPlugin, PlacedPlugin, arranged
from oarlock.schema.types.resources import Resource, declared
from oarlock.server.config import ServerConfig
from oarlock.server.options.flags import UnusedFlag
from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import (
    BooleanType,
    DurationType,
    IntegerType,
    OptionType,
    PathType,
    SeparateListType,
    StringListType,
    StringType,
)

ORDERED_PLUGINS: Final = (
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "PodGroupWorkloadExists",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "AuthorizationConditionsEnforcer",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
)

USERS_PLACE: Final = "MutatingAdmissionPolicy"
"""Plugins of others are asked before this one: policies and webhooks judge what they have made, quotas charge it."""

OFF_BY_DEFAULT: Final = frozenset(
    (
        "AlwaysAdmit",
        "AlwaysDeny",
        "AlwaysPullImages",
        "AuthorizationConditionsEnforcer",
        "DenyServiceExternalIPs",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "ImagePolicyWebhook",
        "LimitPodHardAntiAffinityTopology",
        "NamespaceAutoProvision",
        "NamespaceExists",
        "NodeRestriction",
        "OwnerReferencesPermissionEnforcement",
        "PodNodeSelector",
        "PodTolerationRestriction",
    )
)

ISSUER = "https://kubernetes.default.svc"
_PLUGIN_NAMES = ", ".join(sorted(ORDERED_PLUGINS))
C = TypeVar("C", bound=ServerConfig)


@dataclass(frozen=True, kw_only=True, repr=False)
class ControlPlaneOptions(OptionGroup):
    """The settings of a control plane, which are flags of ``oarlock up``."""

    title = "Control plane"

    controllers: tuple[str, ...] = option(
        ("*",),
        StringListType("NAMES"),
        "The controllers of kube-controller-manager to run, by its names: * means all, NAME one more, -NAME "
        "leaves one out.",
    )
    disable: tuple[str, ...] = option(
        (),
        StringListType("PARTS"),
        "Leave out these parts or controllers, for example workloads,crds. A wrong name prints the list of names.",
    )
    enable_admission_plugins: tuple[str, ...] = option(
        (),
        StringListType("PLUGINS"),
        "Run these admission plugins besides the default ones. Their order doesn't matter. Plugins that aren't "
        f"implemented are reported. Names: {_PLUGIN_NAMES}.",
    )
    disable_admission_plugins: tuple[str, ...] = option(
        (),
        StringListType("PLUGINS"),
        "Don't run these default admission plugins. The names are those of --enable-admission-plugins.",
    )
    admission_control: tuple[str, ...] = option(
        (),
        StringListType("PLUGINS"),
        "Deprecated: run only these admission plugins. Use --enable-admission-plugins or --disable-admission-plugins.",
    )
    admission_control_config_file: Path | None = option(
        None,
        PathType(),
        "An AdmissionConfiguration of apiserver.config.k8s.io/v1 with the configuration of admission plugins: the "
        "kubeconfigs with credentials for webhooks.",
    )
    service_cluster_ip_range: str = option(
        "10.0.0.0/24",
        StringType("CIDR"),
        "The range of Service addresses. Two ranges, separated by a comma, for both IP families.",
    )
    service_node_port_range: str = option(
        "30000-32767",
        StringType("PORTS"),
        "The range of Service node ports.",
    )
    advertise_address: str = option(
        "",
        StringType("IP"),
        "The address in the endpoints of the Service `kubernetes`. By default --bind-address.",
    )

    proxy_client_cert_file: Path | None = option(
        None,
        PathType(),
        "The client certificate of this server for aggregated servers, in PEM. By default one is generated in the "
        "data directory and its authority published, unless --requestheader-client-ca-file is given.",
    )
    proxy_client_key_file: Path | None = option(None, PathType(), "The key of --proxy-client-cert-file, in PEM.")
    kubelet_certificate_authority: Path | None = option(
        None,
        PathType(),
        "The CA of the kubelets' certificates, in PEM. Without it the certificates aren't checked.",
    )
    kubelet_client_certificate: Path | None = option(
        None, PathType(), "The client certificate of this server for kubelets, in PEM."
    )
    kubelet_client_key: Path | None = option(None, PathType(), "The key of --kubelet-client-certificate, in PEM.")
    kubelet_preferred_address_types: tuple[str, ...] = option(
        ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"),
        StringListType("TYPES"),
        "The types of node addresses at which kubelets are called for logs, commands and connections. The first "
        "type that the node has is used.",
    )
    root_ca_file: Path | None = option(
        None,
        PathType(),
        "The CAs that programs in the cluster trust, in PEM. They are published as kube-root-ca.crt and in token "
        "secrets. Set it together with --tls-cert-file. By default the server's own CA.",
    )
    cluster_signing_cert_file: Path | None = option(
        None,
        PathType(),
        "The CA that signs CertificateSigningRequests, in PEM. By default one is generated next to the serving "
        "certificate.",
    )
    cluster_signing_key_file: Path | None = option(None, PathType(), "The key of --cluster-signing-cert-file, in PEM.")
    cluster_signing_duration_s: float = option(
        365 * 86_400.0, DurationType(), "The longest lifetime of certificates that are signed on request."
    )

    def check(self) -> Iterator[Problem]:
        if (self.proxy_client_cert_file is None) != (self.proxy_client_key_file is None):
            yield Problem("proxy_client_cert_file", "must be set together with `proxy_client_key_file`")
        if (self.kubelet_client_certificate is None) != (self.kubelet_client_key is None):
            yield Problem("kubelet_client_certificate", "must be set together with `kubelet_client_key`")
        if (self.cluster_signing_cert_file is None) != (self.cluster_signing_key_file is None):
            yield Problem("cluster_signing_cert_file", "must be set together with --cluster-signing-key-file")
        for text in self.service_cluster_ip_range.split(","):
            try:
                ipaddress.ip_network(text.strip())
            except ValueError as error:
                yield Problem("service_cluster_ip_range", f"{error}; write 10.0.0.0/24")
        first, _, last = self.service_node_port_range.partition("-")
        ports = [int(port) if port.isdecimal() else 0 for port in (first, last or first)]
        if not 1 <= ports[0] <= ports[1] <= 65535:
            yield Problem("service_node_port_range", f"{self.service_node_port_range!r}; write 30000-32767")
        if self.advertise_address:
            try:
                ipaddress.ip_address(self.advertise_address)
            except ValueError as error:
                yield Problem("advertise_address", str(error))


def for_control_plane(config: C) -> C:
    """`config` with the defaults of a control plane."""
    issuers = config.service_account_issuer or (ISSUER,)
    anonymous = config.anonymous_auth
    if anonymous is None and "AlwaysAllow" not in config.authorization_mode and not config.anonymous_paths:
        anonymous = True
    made = replace(config, service_account_issuer=issuers, anonymous_auth=anonymous)
    return _with_certificate_in(made)


def _with_certificate_in(config: C) -> C:
    """`config` with the certificate that kube-apiserver looks for in its ``--cert-dir``, if one is there."""
    folder = config.cert_dir
    if folder is None or config.tls_cert_file is not None or config.tls_sans:
        return config
    certificate, key = folder / "apiserver.crt", folder / "apiserver.key"
    if not (certificate.exists() and key.exists()):
        return config
    return replace(config, tls_cert_file=certificate, tls_private_key_file=key)


_KUBELET_PORT = "nodes say the ports of their kubelets"
_KUBELETS = "requests to kubelets have no deadline of their own"
_NODES = "nothing runs in containers"
_OWN_CACHE = "the watch cache always has every object"
_STORE = "the store looks after itself"
_ONE_STORE = "there is one store for everything"
_KINDS = "what is served is said by --disable"
_GATES = "there are no feature gates: all implemented features are on"
_METRICS = "metrics can't be chosen"
_LOGS = "the log has one form; -v says how much of it"
_NETWORK = "connections are made as the system makes them"
_SHUTDOWN = "a server that leaves ends watches at once"
_PROXY = "aggregated servers are never called with this identity"
_PLAIN = "there is no port without TLS"
_BINDING = "each address and port is taken by one server; use --workers"
_TOKENS = "tokens last as long as they were asked for"
_ADMISSION = "no plugin reads a configuration"
_EVENTS = "events last for an hour"
_STORED = "objects are stored as JSON"


def _pair(text: str) -> str:
    """A name and a value. Raises ValueError."""
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise ValueError(f"{text} isn't NAME=VALUE")
    return text


def _gate(text: str) -> str:
    """A feature gate, perhaps of a component. Raises ValueError."""
    name, _, value = _pair(text).rpartition("=")
    if value.lower() not in ("true", "false", "1", "0", "t", "f"):
        raise ValueError(f"{name}={value}: a gate is true or false")
    return text


_BOOLEAN, _NUMBER, _TIME, _TEXT = BooleanType(), IntegerType(), DurationType(), StringType("TEXT")
_LIST, _PAIRS, _GATE = StringListType("NAMES"), SeparateListType("PAIRS", _pair), StringListType("GATES", _gate)


def _flags(why: str, kind: OptionType, names: str, only: Iterable[str] = ()) -> Iterator[UnusedFlag]:
    for name in names.split():
        yield UnusedFlag(name, kind, why, tuple(only))


KUBE_APISERVER_FLAGS: tuple[UnusedFlag, ...] = (
    *_flags(_NODES, _BOOLEAN, "allow-privileged"),
    *_flags(_KUBELET_PORT, _NUMBER, "kubelet-port kubelet-read-only-port"),
    *_flags(_KUBELETS, _TIME, "kubelet-timeout"),
    *_flags(_PLAIN, _NUMBER, "insecure-port port", only=("0",)),
    *_flags(_PLAIN, _TEXT, "insecure-bind-address"),
    *_flags("write --http2=false instead", _BOOLEAN, "disable-http2-serving", only=("false",)),
    *_flags(_KINDS, StringListType("VERSIONS", _pair), "runtime-config"),
    *_flags(_GATES, _GATE, "feature-gates"),
    *_flags(_GATES, _BOOLEAN, "emulation-forward-compatible runtime-config-emulation-forward-compatible"),
    *_flags(_STORED, _TEXT, "storage-media-type", only=("application/json", "application/vnd.kubernetes.protobuf")),
    *_flags("--storage says where objects are", _TEXT, "storage-backend", only=("etcd3",)),
    *_flags(_ONE_STORE, _TEXT, "etcd-servers-overrides"),
    *_flags(_STORE, _NUMBER, "delete-collection-workers lease-reuse-duration-seconds"),
    *_flags(_STORE, _TIME, "etcd-count-metric-poll-period etcd-db-metric-poll-interval etcd-healthcheck-timeout"),
    *_flags(_STORE, _TIME, "etcd-readycheck-timeout storage-initialization-timeout"),
    *_flags("--controllers says whether it runs", _BOOLEAN, "enable-garbage-collector", only=("true",)),
    *_flags(_OWN_CACHE, _BOOLEAN, "watch-cache", only=("true",)),
    *_flags(_OWN_CACHE, _NUMBER, "default-watch-cache-size"),
    *_flags(_OWN_CACHE, _LIST, "watch-cache-sizes"),
    *_flags(_METRICS, _TEXT, "allow-metric-labels-manifest show-hidden-metrics-for-version"),
    *_flags(_METRICS, _PAIRS, "allow-metric-labels"),
    *_flags(_METRICS, _LIST, "disabled-metrics"),
    *_flags(_LOGS, _TEXT, "logging-format vmodule log-json-info-buffer-size log-text-info-buffer-size"),
    *_flags(_LOGS, _TIME, "log-flush-frequency"),
    *_flags(_LOGS, _BOOLEAN, "log-json-split-stream log-text-split-stream logtostderr alsologtostderr"),
    *_flags(_LOGS, _BOOLEAN, "enable-logs-handler contention-profiling"),
    *_flags(_LOGS, _TEXT, "debug-socket-path tracing-config-file"),
    *_flags(_NETWORK, _TEXT, "egress-selector-config-file external-hostname cloud-config cloud-provider"),
    *_flags(_NETWORK, _NUMBER, "max-connection-bytes-per-sec advertise-port"),
    *_flags(_NETWORK, _TEXT, "peer-advertise-ip peer-advertise-port peer-ca-file"),
    *_flags(_BINDING, _BOOLEAN, "permit-address-sharing permit-port-sharing"),
    *_flags(_SHUTDOWN, _BOOLEAN, "shutdown-send-retry-after"),
    *_flags(_SHUTDOWN, _TIME, "shutdown-watch-termination-grace-period livez-grace-period"),
    *_flags("watches that say no time last for half an hour to an hour", _NUMBER, "min-request-timeout"),
    *_flags(_PROXY, _BOOLEAN, "enable-aggregator-routing aggregator-reject-forwarding-redirects"),
    *_flags(_TOKENS, _BOOLEAN, "service-account-extend-token-expiration"),
    *_flags(_EVENTS, _TIME, "event-ttl", only=("1h0m0s",)),
    *_flags("servers tell each other by Leases", _TEXT, "endpoint-reconciler-type master-service-namespace"),
    *_flags("servers tell each other by Leases", _NUMBER, "apiserver-count identity-lease-duration-seconds"),
    *_flags("servers tell each other by Leases", _NUMBER, "identity-lease-renew-interval-seconds"),
    *_flags("Services have no ports of nodes", _NUMBER, "kubernetes-service-node-port"),
    *_flags("memory isn't planned by it", _NUMBER, "target-ram-mb"),
)
"""By what is told about them."""


class PluginSwitchError(ValueError):
    """Names of admission plugins that can't be switched so. `lines` are kube-apiserver's texts, an error each."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = tuple(lines)


def plugins_asked(
    own: Iterable[AnyPlugin], users: Sequence[AnyPlugin | PlacedPlugin], options: ControlPlaneOptions
) -> list[AnyPlugin]:
    """The plugins that are on, in the order in which they are asked.

    Raises PluginSwitchError, and KeywordError for a user's plugin without a place.
    """
    own = [*own]
    bare = [plugin.plugin if isinstance(plugin, PlacedPlugin) else plugin for plugin in users]
    theirs = {plugin_name(plugin) for plugin in bare}
    switchable = {*ORDERED_PLUGINS, *theirs}
    errors = [*_errors(options, switchable)]
    if errors:
        raise PluginSwitchError(errors)
    off = {*OFF_BY_DEFAULT} - theirs | {*options.disable_admission_plugins}
    if options.admission_control:
        off = switchable - {*options.admission_control}
    placed = arranged(own, users, ORDERED_PLUGINS, USERS_PLACE)
    return [plugin for plugin in placed if plugin_name(plugin) not in off - {*options.enable_admission_plugins}]


def missing_plugins(plugins: Iterable[AnyPlugin], options: ControlPlaneOptions) -> list[str]:
    """The names of what shall be enabled and isn't here."""
    names = {plugin_name(plugin) for plugin in plugins}
    return [name for name in options.enable_admission_plugins or options.admission_control if name not in names]


def _errors(options: ControlPlaneOptions, known: set[str]) -> Iterator[str]:
    enabled, disabled = options.enable_admission_plugins, options.disable_admission_plugins
    if options.admission_control and (enabled or disabled):
        yield "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive"
    flags = (
        ("admission-control", options.admission_control),
        ("enable-admission-plugins", enabled),
        ("disable-admission-plugins", disabled),
    )
    for flag, names in flags:
        for name in names:
            if name not in known:
                yield f"{flag} plugin {quote(name)} is unknown"
    both = sorted({*enabled} & {*disabled})
    if both:
        yield f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped"


def reviews_built_in_kinds(plugin: AnyPlugin | PlacedPlugin) -> bool:
    """Whether a user's plugin may be asked about what the control plane writes itself."""
    member = plugin.plugin if isinstance(plugin, PlacedPlugin) else plugin
    kind = type(member).__resource__ if isinstance(member, Admission) else Resource
    return kind is Resource or declared(kind).group in BUILT_IN_GROUPS
