"""Percent-decoding (RFC 3986 §2.1) in C: URLs are decoded before it is known who sends them, and may be a megabyte."""

from __future__ import annotations

import re
from binascii import a2b_qp

__all__ = ["bad_escape", "decoded"]

_bad_escape = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL).search


def bad_escape(text: str) -> str | None:
    """The first escape in `text` that isn't one, with what follows; None when all are."""
    found = _bad_escape(text) if "%" in text else None
    return None if found is None else found[0]


def decoded(text: str) -> bytes:
    """The bytes that `text` stands for. Every escape in it has to be a good one (`bad_escape`)."""
    # Quoted-printable differs only in the character before the digits, and Python decodes it in one pass.
    return a2b_qp(text.encode(errors="surrogatepass").replace(b"=", b"=3D").replace(b"%", b"="))
