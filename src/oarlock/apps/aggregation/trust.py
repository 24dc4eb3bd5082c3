"""`BackendTrust`: the TLS contexts for connections to backends, one for all that trust the same.

See also: `certificate`, what this server shows of itself.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from weakref import WeakValueDictionary

from oarlock.apps.aggregation.certificate import ProxyCertificate
from oarlock.apps.kinds.apiregistration import APIServiceSpec
from oarlock.meta.dataclass import dataclass
from oarlock.net.messages import HttpError
from oarlock.net.trust import trusting, trusting_anybody


@dataclass(frozen=True, slots=True)
class _Terms:
    """What decides which TLS context a connection uses."""

    bundle: str | None
    insecure: bool
    certificate: object


class BackendTrust:
    """TLS contexts, shared, since making one takes milliseconds. A context lives as long as it is referenced."""

    def __init__(self, certificate: ProxyCertificate) -> None:
        self.certificate = certificate
        self._contexts: WeakValueDictionary[_Terms, ssl.SSLContext] = WeakValueDictionary()

    def context(self, spec: APIServiceSpec) -> ssl.SSLContext:
        """Another one when the certificate's files have changed. Raises `HttpError`."""
        terms = _Terms(spec.ca_bundle, spec.insecure_skip_tls_verify, self.certificate.stamp())
        context = self._contexts.get(terms)
        if context is None:
            context = _context_for(terms)
            self.certificate.load(context)
            self._contexts[terms] = context
        return context


def _context_for(terms: _Terms) -> ssl.SSLContext:
    if terms.insecure:
        return trusting_anybody()
    try:
        return trusting(base64.b64decode(terms.bundle or ""))
    except (ssl.SSLError, binascii.Error, ValueError) as error:
        raise HttpError(f"unable to load root certificates: {error}", unsent=True) from None
