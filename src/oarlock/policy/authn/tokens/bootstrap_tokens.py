"""Bootstrap tokens: ``abcdef.0123456789abcdef``, kept in secrets of ``kube-system``, for machines that join.

Must not know: how secrets are stored. Source: k8s.io/kubernetes ``plugin/pkg/auth/authenticator/token/bootstrap``.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any

from oarlock.meta.context import Clock, User
from oarlock.meta.times import TimeError, parse_rfc3339
from oarlock.policy.authn.authenticator import Identity, StoredObjects
from oarlock.policy.authn.tokens.bearer_tokens import FOR_EVER, TokenAnswer

NAMESPACE = "kube-system"
TYPE = "bootstrap.kubernetes.io/token"
GROUP = "system:bootstrappers"
_token = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_group = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class BootstrapTokens:
    """Identifies bootstrap tokens, as ``system:bootstrap:<id>``."""

    waits = False

    def __init__(self, objects: StoredObjects, audiences: Sequence[str], clock: Clock) -> None:
        self._objects = objects
        self._audiences = tuple(audiences)
        self._clock = clock

    async def identify(self, token: str, audiences: Sequence[str]) -> TokenAnswer | None:
        match = _token.fullmatch(token)
        fitting = tuple(audience for audience in audiences if audience in self._audiences)
        if match is None or (self._audiences and audiences and not fitting):
            return None
        token_id, secret = match.groups()
        objects, name = self._objects, f"bootstrap-token-{token_id}"
        revision, tree = objects.revision("secrets", NAMESPACE, name), objects.read("secrets", NAMESPACE, name)
        if tree is None or tree.get("type") != TYPE or tree["metadata"].get("deletionTimestamp"):
            return None
        values = _values(tree)
        if not hmac.compare_digest(values.get("token-secret", "").encode(), secret.encode()):
            return None
        until = _expiry(values.get("expiration", ""))
        if values.get("token-id") != token_id or until <= self._clock.now():
            return None
        groups = [group for group in values.get("auth-extra-groups", "").split(",") if group]
        if values.get("usage-bootstrap-authentication") != "true" or not all(map(_group.fullmatch, groups)):
            return None
        user = User(f"system:bootstrap:{token_id}", groups=(*dict.fromkeys(sorted(groups)), GROUP))
        return TokenAnswer(
            Identity(user, fitting or None), until, lambda: objects.revision("secrets", NAMESPACE, name) == revision
        )


def _values(secret: Mapping[str, Any]) -> dict[str, str]:
    values = {}
    for key, value in (secret.get("data") or {}).items():
        try:
            values[key] = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, ValueError):
            continue
    return values


def _expiry(text: str) -> float:
    """When the token expires; at once if that can't be read."""
    if not text:
        return FOR_EVER
    try:
        return parse_rfc3339(text)
    except TimeError:
        return 0.0
