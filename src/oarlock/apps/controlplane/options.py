"""The options that a control plane has otherwise than a server of one's own, unless they are given.

It issues tokens of service accounts, and lets authorization decide on requests without credentials, as kube-apiserver.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from oarlock.server.config import ServerConfig

__all__ = ["for_control_plane"]

ISSUER = "https://kubernetes.default.svc"

C = TypeVar("C", bound=ServerConfig)


def for_control_plane(config: C) -> C:
    """`config` with the defaults of a control plane."""
    issuers = config.service_account_issuer or (ISSUER,)
    anonymous = config.anonymous_auth
    if anonymous is None and "AlwaysAllow" not in config.authorization_mode and not config.anonymous_paths:
        anonymous = True
    return replace(config, service_account_issuer=issuers, anonymous_auth=anonymous)
