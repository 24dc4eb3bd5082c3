"""A front proxy's word: headers that name the user, believed only behind a certificate of the proxy's own authority.

Kubernetes' aggregator is such a proxy. Whoever else sends the headers isn't believed, and nobody behind authentication
sees them: see `FrontProxyHeaders`.
Must not know: TLS, sockets. Source: k8s.io/apiserver ``authentication/request/headerrequest``, ``…/request/x509``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote

from cryptography import x509

from oarlock.meta.context import Clock, Peer, User
from oarlock.policy.authn.authenticator import UNDECIDED, BadCredentials, Credentials, Identity
from oarlock.policy.authn.certificates import CertificateCheck, common_name
from oarlock.policy.authn.front_proxy_headers import FrontProxyNames

_badly_escaped = re.compile(r"%(?![0-9A-Fa-f]{2})")


class FrontProxy:
    """Authenticates users that a front proxy names, whose certificate one of `authorities` issued."""

    waits = False

    def __init__(self, authorities: Iterable[x509.Certificate], names: FrontProxyNames, clock: Clock) -> None:
        self._check = CertificateCheck(authorities, clock, common_name)
        self._names = names
        self._allowed = frozenset(names.allowed_names)

    def authenticate_cached(self, headers: Mapping[str, str], peer: Peer) -> Identity | None:
        """See `AtOnce`."""
        return None if peer.certificate is None else UNDECIDED

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        peer = credentials.peer
        if peer.certificate is None:
            return None
        proxy = self._check.verified(peer.certificate, peer.chain)
        if self._allowed and proxy not in self._allowed:
            raise BadCredentials(f"x509: subject with cn={proxy} is not in the allowed list")
        name = _first(credentials, self._names.username_headers)
        if not name:
            return None
        groups = _all(credentials, self._names.group_headers)
        return Identity(User(name, _first(credentials, self._names.uid_headers), groups, self._extra(credentials)))

    def _extra(self, credentials: Credentials) -> dict[str, tuple[str, ...]]:
        extra: dict[str, tuple[str, ...]] = {}
        for prefix in self._names.extra_prefixes:
            for name, value in credentials.lines:
                if name.startswith(prefix):
                    key = _unescaped(name[len(prefix) :])
                    extra[key] = (*extra.get(key, ()), _text(value))
        return extra


def _first(credentials: Credentials, names: Sequence[str]) -> str:
    """The first line of the first header that isn't empty."""
    return next((_text(value) for name in names if (value := credentials.headers.get(name))), "")


def _all(credentials: Credentials, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(_text(value) for name in names for value in credentials.values(name) if value)


def _text(value: str) -> str:
    """The UTF-8 that a header has; its bytes are shown as latin-1. Raises `BadCredentials`."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        raise BadCredentials("a header of the front proxy isn't UTF-8") from None


def _unescaped(key: str) -> str:
    """A key that is percent-encoded, because it has to be the name of a header; else as it is."""
    try:
        return key if _badly_escaped.search(key) else unquote(key, errors="strict")
    except UnicodeDecodeError:
        return key
