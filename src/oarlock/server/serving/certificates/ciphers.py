"""Versions of TLS and cipher suites by Go's names, as kube-apiserver's flags have them, and OpenSSL's for them.

Those of TLS 1.3 are all secure and always on, as in Go. Suites without forward secrecy or with known weaknesses aren't
taken. Source: Go's ``crypto/tls``; RFC 9325.
"""

from __future__ import annotations

import ssl

__all__ = ["VERSIONS", "cipher_suite", "openssl_ciphers"]

VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}

_ALWAYS = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_SUITES = {
    f"TLS_ECDHE_{key}_WITH_{go}": f"ECDHE-{key}-{name}"
    for key in ("ECDSA", "RSA")
    for go, name in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("CHACHA20_POLY1305", "CHACHA20-POLY1305"),
    )
}


def cipher_suite(text: str) -> str:
    """A suite's name, if it is taken. Raises ValueError."""
    if text in _SUITES or text in _ALWAYS:
        return text
    known = ", ".join(name for name in _SUITES if not name.endswith("POLY1305"))
    raise ValueError(f"{text} isn't taken; choose of {known}")


def openssl_ciphers(suites: tuple[str, ...]) -> str:
    """OpenSSL's list for suites of Go; those of TLS 1.3 are left out. Raises ValueError if none is left."""
    names = [_SUITES[suite] for suite in suites if suite in _SUITES]
    if not names:
        raise ValueError("names suites of TLS 1.3 only, which are always on: name one of TLS 1.2 too")
    return ":".join(dict.fromkeys(names))
