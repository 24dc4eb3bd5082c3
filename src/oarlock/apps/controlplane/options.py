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

__all__ = ["OFF_BY_DEFAULT", "ORDERED_PLUGINS", "USERS_PLACE", "ControlPlaneOptions", "for_control_plane"]

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
    """What a control plane consists of, and what its own objects say of it."""

    title = "Control plane"

    controllers: tuple[str, ...] = option(
        ("*",),
        StringListType("NAMES"),
        "Which of the controllers run that kube-controller-manager has too, by its names: * is all, name one more, "
        "-name all but that one.",
    )
    disable: tuple[str, ...] = option(
        (),
        StringListType("PARTS"),
        "Leave out these parts, or controllers: for example workloads,crds; a wrong name lists them.",
    )
    enable_admission_plugins: tuple[str, ...] = option(
        (),
        StringListType("PLUGINS"),
        "Admission plugins to run besides those that are on anyway; of one that isn't here it is told. Their order "
        f"doesn't matter. Names: {_PLUGIN_NAMES}.",
    )
    disable_admission_plugins: tuple[str, ...] = option(
        (),
        StringListType("PLUGINS"),
        "Admission plugins not to run although they are on by default, by the names of --enable-admission-plugins.",
    )
    admission_control: tuple[str, ...] = option(
        (),
        StringListType("PLUGINS"),
        "Deprecated: the admission plugins to run, and no others. Use --enable-admission-plugins or "
        "--disable-admission-plugins instead.",
    )
    admission_control_config_file: Path | None = option(
        None,
        PathType(),
        "What admission plugins are told, in an AdmissionConfiguration of apiserver.config.k8s.io/v1: the kubeconfigs "
        "with the credentials for admission webhooks.",
    )
    service_cluster_ip_range: str = option(
        "10.0.0.0/24",
        StringType("CIDR"),
        "Take the addresses of Services from this range; one of each family with a comma between.",
    )
    service_node_port_range: str = option(
        "30000-32767",
        StringType("PORTS"),
        "Take the node ports of Services from this range.",
    )
    advertise_address: str = option(
        "",
        StringType("IP"),
        "The address that the endpoints of the Service `kubernetes` have; --bind-address unless given.",
    )

    proxy_client_cert_file: Path | None = option(
        None,
        PathType(),
        "The certificate by which aggregated servers know this one, in PEM. Unless it or "
        "--requestheader-client-ca-file is given, one is made in the data directory, and its authority is published.",
    )
    proxy_client_key_file: Path | None = option(None, PathType(), "The key of --proxy-client-cert-file, in PEM.")
    kubelet_certificate_authority: Path | None = option(
        None,
        PathType(),
        "The CA of the kubelets' certificates, in PEM; without it none is checked.",
    )
    kubelet_client_certificate: Path | None = option(
        None, PathType(), "The certificate by which kubelets know this server, in PEM."
    )
    kubelet_client_key: Path | None = option(None, PathType(), "The key of --kubelet-client-certificate, in PEM.")
    kubelet_preferred_address_types: tuple[str, ...] = option(
        ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"),
        StringListType("TYPES"),
        "The types of a node's addresses at which its kubelet is asked for logs, commands and connections: the first "
        "type that the node has an address of.",
    )
    root_ca_file: Path | None = option(
        None,
        PathType(),
        "The CAs by which programs in the cluster trust the server, in PEM: published as kube-root-ca.crt, and in "
        "secrets with tokens. Give it with --tls-cert-file; else the server's own CA is published.",
    )
    cluster_signing_cert_file: Path | None = option(
        None,
        PathType(),
        "Sign certificates that are asked for with this CA, in PEM; one is made beside the serving one unless given.",
    )
    cluster_signing_key_file: Path | None = option(None, PathType(), "The key of --cluster-signing-cert-file, in PEM.")
    cluster_signing_duration_s: float = option(
        365 * 86_400.0, DurationType(), "How long certificates last that are signed on request, at most."
    )

    def check(self) -> Iterator[Problem]:
        if (self.proxy_client_cert_file is None) != (self.proxy_client_key_file is None):
            yield Problem("proxy_client_cert_file", "give it and `proxy_client_key_file`, or neither")
        if (self.kubelet_client_certificate is None) != (self.kubelet_client_key is None):
            yield Problem("kubelet_client_certificate", "give it and `kubelet_client_key`, or neither")
        if (self.cluster_signing_cert_file is None) != (self.cluster_signing_key_file is None):
            yield Problem("cluster_signing_cert_file", "give it and --cluster-signing-key-file, or neither")
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
