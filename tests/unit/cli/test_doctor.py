"""``oarlock doctor``: what it makes of the messages of Kubernetes' aggregator.

See also: ``tests/clients/test_doctor_of_processes.py``, breakages of real processes.
"""

from __future__ import annotations

import pytest

from oarlock.cli.doctor.cluster import bad
from oarlock.cli.doctor.command import _cause, _condition, advice_about

URL = "https://10.0.0.7:443/apis/shop.example.com/v1"
MESSAGES = {
    "bad status from {}: 401": "doesn't trust the cluster's front proxy",
    "bad status from {}: 403": "doesn't let the cluster's API server look",
    "bad status from {}: 404": "another server answers behind the Service",
    "bad status from {}: 500": "system:auth-delegator",
    "bad status from {}: 503": "read its log",
    'Get "{}": tls: failed to verify certificate: x509: certificate signed by unknown authority': "isn't signed by",
    'Get "{}": tls: failed to verify certificate: x509: certificate has expired or is not yet valid': "renew it",
    'Get "{}": tls: failed to verify certificate: x509: certificate is valid for localhost, not shop.shop.svc': (
        "for another name"
    ),
    'Get "{}": http: server gave HTTP response to HTTPS client': "doesn't speak TLS",
    'Get "{}": dial tcp: lookup shop on 10.0.0.10:53: no such host': "DNS",
    'Get "{}": dial tcp 10.0.0.7:443: connect: connection refused': "nothing listens there",
    'Get "{}": dial tcp 10.0.0.7:443: connect: no route to host': "no way to the backend",
    'Get "{}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)': "NetworkPolicy",
    'Get "{}": net/http: request canceled while waiting for connection: i/o timeout': "it hangs",
    'Get "{}": read tcp 10.0.0.1:5->10.0.0.7:443: read: connection reset by peer': "it may crash",
    'Get "{}": EOF': "closes connections",
}


@pytest.mark.parametrize("message", MESSAGES)
def test_what_the_aggregator_says_is_explained_and_comes_first(message: str):
    text = f"failing or missing response from {URL}: {message.format(URL)}"
    condition = {"type": "Available", "status": "False", "reason": "FailedDiscoveryCheck", "message": text}
    spec = {"group": "shop.example.com", "version": "v1", "service": {"namespace": "shop", "name": "shop"}}
    assert MESSAGES[message] in advice_about(text)
    found = [_condition({"spec": spec, "status": {"conditions": [condition]}})]
    cause = _cause([*found, bad("GET /apis/shop.example.com/v1", "503: service unavailable", "")])
    assert cause is found[0]
