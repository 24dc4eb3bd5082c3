"""Options of authorization: who may do what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import DurationType, PathType, StringListType, StringType

__all__ = ["ALWAYS_ALLOW", "ALWAYS_DENY", "NODE", "RBAC", "WEBHOOK", "AuthorizationOptions"]

ALWAYS_ALLOW, ALWAYS_DENY, RBAC, WEBHOOK = "AlwaysAllow", "AlwaysDeny", "RBAC", "Webhook"
NODE = "Node"
"""Decides about kubelets only, of which there are none: it has no opinion."""
MODES = (ALWAYS_ALLOW, ALWAYS_DENY, RBAC, WEBHOOK, NODE)
NOT_HERE = {"ABAC": "write an Authorizer instead"}


def _mode(text: str) -> str:
    """A way to decide. Raises ValueError."""
    if text in NOT_HERE:
        raise ValueError(f"there is no mode {text}: {NOT_HERE[text]}")
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
        "Who decides, in order: AlwaysAllow, AlwaysDeny, RBAC, Webhook, or Node, which has no opinion, as there are no "
        "kubelets; AlwaysAllow if no option says who.",
    )
    authorization_always_allow_paths: tuple[str, ...] = option(
        (),
        StringListType("PATHS", _path),
        "Let everybody who is let in ask for these paths, /healthz/* for all below; none unless given.",
    )

    authorization_webhook_config_file: Path | None = option(
        None, PathType(), "Where the mode Webhook sends SubjectAccessReviews, as a kubeconfig."
    )
    authorization_webhook_version: str = option(
        "v1", StringType("VERSION"), "The version of SubjectAccessReviews that the webhook takes: v1, v1beta1."
    )
    authorization_webhook_cache_authorized_ttl_s: float = option(
        300.0, DurationType(), "How long it is remembered that the webhook, or the cluster, allowed something."
    )
    authorization_webhook_cache_unauthorized_ttl_s: float = option(
        30.0, DurationType(), "How long it is remembered that the webhook, or the cluster, didn't allow something."
    )
    authorization_kubeconfig: Path | None = option(
        None, PathType(), "Ask this cluster, with SubjectAccessReviews, who may do what; after the modes."
    )
    authorization_config: Path | None = option(
        None,
        PathType(),
        "Who decides, in place of --authorization-mode: an AuthorizationConfiguration, read again when it changes.",
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
            yield Problem("authorization_webhook_config_file", "counts only with Webhook in `authorization_mode`")
        if self.authorization_config is not None and modes:
            yield Problem("authorization_config", "says what `authorization_mode` says: give one of them")
        if self.authorization_webhook_version not in ("v1", "v1beta1"):
            yield Problem("authorization_webhook_version", "is v1 or v1beta1")
