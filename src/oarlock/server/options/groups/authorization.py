"""Options of authorization: who may do what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import DurationType, PathType, StringListType, StringType

ALWAYS_ALLOW, ALWAYS_DENY, RBAC, WEBHOOK = "AlwaysAllow", "AlwaysDeny", "RBAC", "Webhook"
NODE = "Node"
"""Decides about kubelets only, of which there are none: it has no opinion."""
MODES = (ALWAYS_ALLOW, ALWAYS_DENY, RBAC, WEBHOOK, NODE)
NOT_HERE = {"ABAC": "write an Authorizer instead"}


def _mode(text: str) -> str:
    """A way to decide. Raises ValueError."""
    if text in NOT_HERE:
        raise ValueError(f"the mode {text} isn't implemented: {NOT_HERE[text]}")
    if text not in MODES:
        raise ValueError(f"{text} is not one of {', '.join(MODES)}")
    return text


def _path(text: str) -> str:
    """A path of a URL, which may end with ``*``. Raises ValueError."""
    if not text.startswith("/") or "*" in text[:-1]:
        raise ValueError(f"{text} is not a path; write /healthz, or /healthz/* for all below it")
    return text


@dataclass(frozen=True, kw_only=True, repr=False)
class AuthorizationOptions(OptionGroup):
    title = "Authorization"

    authorization_mode: tuple[str, ...] = option(
        (),
        StringListType("MODES", _mode),
        "The authorizers, in order: AlwaysAllow, AlwaysDeny, RBAC, Webhook, Node. Node never decides, as there "
        "are no kubelets. By default AlwaysAllow, if no other option sets an authorizer.",
    )
    authorization_always_allow_paths: tuple[str, ...] = option(
        (),
        StringListType("PATHS", _path),
        "Allow every authenticated user to request these paths. /healthz/* includes all paths below. By default none.",
    )

    authorization_webhook_config_file: Path | None = option(
        None, PathType(), "The kubeconfig of the service that the mode Webhook sends SubjectAccessReviews to."
    )
    authorization_webhook_version: str = option(
        "v1", StringType("VERSION"), "The version of these SubjectAccessReviews: v1 or v1beta1."
    )
    authorization_webhook_cache_authorized_ttl_s: float = option(
        300.0, DurationType(), "How long an allowed request of the webhook, or of the cluster, is cached."
    )
    authorization_webhook_cache_unauthorized_ttl_s: float = option(
        30.0, DurationType(), "How long a denied request of the webhook, or of the cluster, is cached."
    )
    authorization_kubeconfig: Path | None = option(
        None,
        PathType(),
        "Authorize with SubjectAccessReviews to the cluster of this kubeconfig, after the modes. in-cluster is "
        "the cluster of the pod.",
    )
    authorization_config: Path | None = option(
        None,
        PathType(),
        "An AuthorizationConfiguration with the authorizers, in place of --authorization-mode. It is read again "
        "when it changes.",
    )

    @property
    def says_who_decides(self) -> bool:
        """Whether any option is about who decides."""
        files = (self.authorization_kubeconfig, self.authorization_config)
        return bool(self.authorization_mode or any(file is not None for file in files))

    def check(self) -> Iterator[Problem]:
        modes, file = self.authorization_mode, self.authorization_webhook_config_file
        if len(set(modes)) < len(modes):
            yield Problem("authorization_mode", "names one mode twice")
        if WEBHOOK in modes and file is None:
            yield Problem("authorization_mode", "Webhook needs `authorization_webhook_config_file`")
        if WEBHOOK not in modes and file is not None:
            yield Problem("authorization_webhook_config_file", "has no effect without Webhook in `authorization_mode`")
        if self.authorization_config is not None and modes:
            yield Problem("authorization_config", "can't be combined with `authorization_mode`: set one of them")
        if self.authorization_webhook_version not in ("v1", "v1beta1"):
            yield Problem("authorization_webhook_version", "is v1 or v1beta1")
