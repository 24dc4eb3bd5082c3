"""`ControlPlaneOptions`: the options that only a control plane has, and the defaults in which it differs from a server.

It issues tokens of service accounts, and lets authorization decide on requests without credentials, as kube-apiserver.
Importing this imports no part of a control plane. See also: `control_plane`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.server.config import ServerConfig
from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import DurationType, PathType, StringListType, StringType

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
