"""Kubernetes' own signers: what each may sign. Source: Kubernetes' documentation of signers."""

from __future__ import annotations

from collections.abc import Collection

from cryptography import x509

from oarlock.apps.controllers.certificates.authority import names_in

__all__ = ["CLIENT", "KUBELET_CLIENT", "KUBELET_SERVING", "LEGACY", "SIGNERS", "refusal"]

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
LEGACY = "kubernetes.io/legacy-unknown"
SIGNERS = (CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY)

NODES = "system:nodes"
NODE = "system:node:"
_BESIDE = frozenset(("digital signature", "key encipherment"))


def refusal(signer: str, request: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    """Why a signer doesn't sign a request; empty if it does."""
    if signer == CLIENT:
        return _wrong_usages(usages, "client auth")
    if signer not in (KUBELET_CLIENT, KUBELET_SERVING):
        return ""
    names = names_in(request)
    if names.organizations != (NODES,):
        return f"subject organization is not {NODES}"
    if not names.common_name.startswith(NODE):
        return f"subject common name does not begin with {NODE}"
    if names.emails:
        return "emailSANs not allowed"
    if names.uris:
        return "uriSANs not allowed"
    if signer == KUBELET_CLIENT:
        if names.dns or names.ips:
            return "dnsNames and ipAddresses not allowed"
        return _wrong_usages(usages, "client auth")
    if not (names.dns or names.ips):
        return "DNS or IP subjectAltName is required"
    return _wrong_usages(usages, "server auth")


def _wrong_usages(usages: Collection[str], needed: str) -> str:
    given = set(usages)
    right = needed in given and given <= _BESIDE | {needed}
    return "" if right else f"usages did not match {sorted(_BESIDE | {needed})}"
