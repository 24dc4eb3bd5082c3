"""Whom one believes at the other end of a TLS connection: one maker of contexts for everything that is called.

The rules are those of Go's ``crypto/x509``, whatever Python this is: each certificate that is given is trusted as it
stands, be it an authority's, an intermediate's or the server's own, and certificates needn't have all that RFC 5280
wants of authorities. (Python 3.13 began to want it by default.)
See also: `url`, which says whether TLS is used.
"""

from __future__ import annotations

import ssl
from pathlib import Path


def trusting(pem: str | bytes = b"", *, file: Path | str | None = None) -> ssl.SSLContext:
    """A TLS context that trusts the CAs in `pem` or `file`, or by default those of the system.

    Raises OSError, and ValueError if there is no certificate in it.
    """
    text = pem.decode() if isinstance(pem, bytes) else pem
    context = ssl.create_default_context(cafile=str(file) if file and not text else None, cadata=text or None)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def trusting_anybody() -> ssl.SSLContext:
    """A context that looks at no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
