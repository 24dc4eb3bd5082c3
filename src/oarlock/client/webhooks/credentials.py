"""`KubeconfigCredentials`: who this server is to webhooks, by a kubeconfig whose users are named after hosts.

A user is called ``host:port``, ``host`` for port 443, ``*.suffix`` with or without the port, or ``*`` for all others. A
webhook behind a Service is ``name.namespace.svc``. Clusters in the file don't count.
See also: `webhooks.calls`, which asks.
Source: Kubernetes' documentation of "Authenticate API servers"; k8s.io/apiserver ``util/webhook``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from oarlock.client.login.config import ClientConfig, ClientConfigError
from oarlock.client.login.kubeconfig import KubeconfigUsers, in_cluster_config, load_users

__all__ = ["KubeconfigCredentials"]

log = logging.getLogger("oarlock.admission")

OWN_SERVICE = "kubernetes.default.svc:443"
HTTPS = ":443"
NOBODY = ClientConfig("")


class KubeconfigCredentials:
    """A ``WebhookCredentials``. Making one raises ClientConfigError for a file that can't be used; one that is replaced
    by such a file later is told of, and what was read before stays in force."""

    def __init__(self, file: Path, in_cluster: Callable[[], ClientConfig] = in_cluster_config) -> None:
        self._file = file
        self._in_cluster = in_cluster
        self._stamp = _stamp(file)
        self._users = load_users(file)

    def __call__(self, host: str) -> ClientConfig:
        """The credentials for ``host:port``."""
        stamp = _stamp(self._file)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._users = load_users(self._file)
            except ClientConfigError as error:
                log.error("%s: what was read before stays in force", error)
        return self._credentials(self._users, host)

    def _credentials(self, known: KubeconfigUsers, host: str) -> ClientConfig:
        for name in _names(host):
            if name in known.users:
                return known.users[name]
        if host == OWN_SERVICE:
            try:
                return self._in_cluster()
            except ClientConfigError:
                pass  # it runs in no cluster
        return known.users.get("*") or known.users.get(known.current) or NOBODY


def _names(host: str) -> Iterator[str]:
    """The names that a user for `host` may have, the most exact first."""
    hosts = [host, host.removesuffix(HTTPS)] if host.endswith(HTTPS) else [host]
    for name in hosts:
        yield name
        labels = name.split(".")
        for at in range(1, len(labels)):
            yield ".".join(["*", *labels[at:]])


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
