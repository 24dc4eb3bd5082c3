"""What an aggregator's message about an unavailable APIService means, and what to do about it.

The messages are those of kube-aggregator and of ours. While an APIService is unavailable the cluster answers 503 for it
whatever the backend says, so what the backend said is in this message only.
"""

from __future__ import annotations

import re

_MEANINGS = (
    (
        r"bad status from \S+ 401",
        "the backend doesn't trust the cluster's front proxy: compare the cluster's --proxy-client-cert-file with "
        "requestheader-client-ca-file and requestheader-allowed-names of the ConfigMap "
        "extension-apiserver-authentication, and restart a backend that doesn't follow it",
    ),
    (
        r"bad status from \S+ 403",
        "the backend doesn't let the cluster's API server look at its discovery: check --authorization-kubeconfig, and "
        "the ClusterRoleBinding of system:discovery",
    ),
    (
        r"bad status from \S+ 404",
        "another server answers behind the Service, or one that doesn't serve this group and version: check the "
        "Service's selector and the version of the image",
    ),
    (
        r"bad status from \S+ (429|5\d\d)",
        "the backend fails: read its log; it may lack the ClusterRole system:auth-delegator, or not reach its store",
    ),
    (r"bad status from \S+ 3\d\d", "the backend redirects: a proxy is in front of it"),
    (
        r"unknown authority|self.signed|unable to get local issuer|certificate verify failed: unable",
        "the backend's certificate isn't signed by caBundle: set caBundle to its authority",
    ),
    (
        r"(certificate|cert)\b.*expired|not yet valid",
        "the backend's certificate has expired or isn't valid yet: renew it, and check the clocks",
    ),
    (
        r"certificate is (not )?valid for|[Hh]ostname mismatch|doesn't contain any IP SANs|legacy Common Name",
        "the backend's certificate is for another name: issue one for NAME.NAMESPACE.svc",
    ),
    (
        r"HTTP response to HTTPS client|not look like a TLS|WRONG_VERSION_NUMBER|wrong version number",
        "the backend doesn't speak TLS at this port: serve HTTPS, or correct the port",
    ),
    (
        r"no such host|Name or service not known|nodename nor servname|name resolution",
        "the name of the backend isn't known: check the Service and the cluster's DNS",
    ),
    (
        r"connection refused|Connection refused|Connect call failed",
        "nothing listens there: start the backend, and check targetPort of the Service",
    ),
    (
        r"no route to host|network is unreachable|No route to host|Network is unreachable",
        "the network has no way to the backend: check routes from the API server to pods and Services",
    ),
    (
        r"deadline exceeded|Client\.Timeout|i/o timeout|no answer within|timed out",
        "the backend doesn't answer: it hangs, or a NetworkPolicy or firewall drops what the API server sends; allow "
        "ingress at its port",
    ),
    (r"connection reset|unexpected EOF|\bEOF\b", "the backend closes connections: read its log, it may crash"),
    (
        r"has no addresses|have no addresses|no endpoints|MissingEndpoints|EndpointsNotFound",
        "no pod of the backend is ready: see its pods",
    ),
    (r"service/\S+ in \S+ is not present|ServiceNotFound", "create the Service, or correct spec.service"),
    (
        r"is not listening on port|ServicePortError|has no port",
        "add the port to the Service, or correct spec.service.port",
    ),
)


def advice_about(text: str) -> str:
    """What to do about a reason and message, empty for one that isn't known."""
    return next((advice for pattern, advice in _MEANINGS if re.search(pattern, text)), "")
