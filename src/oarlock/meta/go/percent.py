"""Percent-decoding (RFC 3986 §2.1) in C, because URLs may be a megabyte and are decoded before authentication."""

from __future__ import annotations

import re
from binascii import a2b_qp

_bad_escape = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL).search


def bad_escape(text: str) -> str | None:
    """The first invalid escape in `text`, with up to two characters after the ``%``; None when all are valid."""
    match = _bad_escape(text) if "%" in text else None
    return None if match is None else match[0]


def decoded(text: str) -> bytes:
    """The decoded bytes of `text`. Every escape in it must be valid (`bad_escape`)."""
    # Quoted-printable has ``=`` where URLs have ``%``, and Python decodes it in one pass.
    return a2b_qp(text.encode(errors="surrogatepass").replace(b"=", b"=3D").replace(b"%", b"="))
