"""The serving certificate of a plan, and how an APIService learns of its authority. See also: `plan`."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from oarlock.cli.deploying.plan import Plan
from oarlock.meta.json_trees import Tree
from oarlock.server.serving.certificates.issuing import issue, new_authority

__all__ = ["CA_KEY", "certificate_objects", "trust_of"]

CA_KEY = "ca.crt"
INJECT = "cert-manager.io/inject-ca-from"


def certificate_objects(plan: Plan, now: float) -> list[Tree]:
    """The Secret with the certificate, or what makes it. `now` is in seconds since the epoch."""
    if plan.options.certificates == "generated":
        return [_generated(plan, datetime.fromtimestamp(now, UTC))]
    return _cert_manager(plan) if plan.options.certificates == "cert-manager" else []


def trust_of(plan: Plan, objects: list[Tree]) -> tuple[Tree, Tree]:
    """What an APIService has for the certificate in `objects`: annotations, and fields of its spec."""
    if plan.options.certificates == "cert-manager":
        return {INJECT: f"{plan.namespace}/{plan.secret}"}, {}
    secret = next((manifest for manifest in objects if manifest["kind"] == "Secret"), None)
    return {}, {} if secret is None else {"caBundle": secret["data"][CA_KEY]}


def _generated(plan: Plan, moment: datetime) -> Tree:
    """A certificate for a year. The authority's key is thrown away: it signs nothing else."""
    authority = new_authority(moment)
    pair = issue(authority, plan.hosts, moment)
    data = {CA_KEY: authority.certificate_pem, "tls.crt": pair.certificate_pem, "tls.key": pair.key_pem}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": plan.secret, "namespace": plan.namespace, "labels": plan.labels},
        "type": "kubernetes.io/tls",
        "data": {name: base64.b64encode(text).decode() for name, text in data.items()},
    }


def _cert_manager(plan: Plan) -> list[Tree]:
    """An authority of its own, and a certificate that it signs. Source: cert-manager.io/v1."""
    own, authority = f"{plan.name}-selfsigned", f"{plan.name}-ca"
    return [
        _issued(plan, "Issuer", own, {"selfSigned": {}}),
        _issued(
            plan,
            "Certificate",
            authority,
            {
                "isCA": True,
                "commonName": f"{plan.name}.{plan.namespace}.ca",
                "secretName": authority,
                "duration": "87600h",
                "privateKey": {"algorithm": "ECDSA", "size": 256},
                "issuerRef": {"kind": "Issuer", "name": own},
            },
        ),
        _issued(plan, "Issuer", authority, {"ca": {"secretName": authority}}),
        _issued(
            plan,
            "Certificate",
            plan.secret,
            {
                "secretName": plan.secret,
                "dnsNames": list(plan.hosts),
                "usages": ["digital signature", "server auth"],
                "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
                "issuerRef": {"kind": "Issuer", "name": authority},
            },
        ),
    ]


def _issued(plan: Plan, kind: str, name: str, spec: Tree) -> Tree:
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": plan.namespace, "labels": plan.labels},
        "spec": spec,
    }
