"""The command ``oarlock webhooks``: the code of declared resources, for a cluster that has their definitions.

See also: ``apps.webhooks.server``; `declaring_commands`, which prints the definitions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from oarlock.apps.webhooks.server import WebhookServer, not_in_webhooks, reviewed
from oarlock.cli.loading import DeclarationsArgument, load_code
from oarlock.client.connecting import connect
from oarlock.client.login.config import ClientConfigError
from oarlock.client.login.kubeconfig import load_config
from oarlock.controllers.controller import ClusterControllers
from oarlock.meta.dataclass import dataclass
from oarlock.registry.served import Served
from oarlock.server.command import CommandError, ServeOptions, serve_with, set_up_logging
from oarlock.server.options.commands import Command
from oarlock.server.options.option import Problem, option
from oarlock.server.options.types import PathType, StringType

__all__ = ["WEBHOOKS", "WebhookOptions", "told", "webhook_server"]


@dataclass(frozen=True, kw_only=True, repr=False)
class WebhookOptions(DeclarationsArgument, ServeOptions):
    """The options of ``oarlock webhooks``."""

    title = ""

    cluster_kubeconfig: Path | None = option(
        None,
        PathType(),
        "The kubeconfig of the cluster whose objects informers follow; by default KUBECONFIG, a pod's service account, "
        "or ~/.kube/config.",
        flag="kubeconfig",
        in_file=False,
    )
    context: str = option("", StringType("NAME"), "The context of that kubeconfig to use.", in_file=False)

    def check(self) -> Iterator[Problem]:
        if self.storage != ServeOptions().storage:
            yield Problem("storage", "leave it out: the cluster keeps the objects")


def webhook_server(where: str, kubeconfig: Path | None = None, context: str = "") -> WebhookServer:
    """The webhooks of what is declared at `where`. Raises `CommandError`, `DeclarationError`."""
    code = load_code(where)
    resources = reviewed(code.resources)
    if not resources:
        raise CommandError(f"{where}: it stores no resource of its own, and webhooks are about stored objects")
    if code.user_code.informers:
        try:
            load_config(kubeconfig, context=context)
        except ClientConfigError as error:
            raise CommandError(f"hooks read objects of a cluster: {error}") from None
    clusters = [group for group in code.user_code.controllers if isinstance(group, ClusterControllers)]
    for group in clusters:
        group.kubeconfig = group.kubeconfig or kubeconfig
    return WebhookServer(
        resources=resources,
        code=code.user_code,
        connect=partial(connect, kubeconfig, context=context),
        controllers=clusters,
        name=code.name,
    )


def told(resources: list[Served]) -> Iterator[str]:
    """What of their code stays undone in a cluster, a line each."""
    for served in resources:
        for text in not_in_webhooks(served):
            yield f"{served.definition.names.kind}: not in a cluster: {text}"


def _webhooks(options: WebhookOptions) -> int:
    """Serve the code of declared resources as webhooks, for a cluster that has their CustomResourceDefinitions.

    A mutating webhook at /mutate, a validating one at /validate, and conversion at /convert. oarlock manifests
    --home=crd prints what tells a cluster of them.
    """
    set_up_logging(options.verbosity)
    server = webhook_server(options.declarations, options.cluster_kubeconfig, options.context)
    for line in told([resource.served for resource in server.resources]):
        print(f"oarlock: {line}", file=sys.stderr)
    return serve_with(server, options)


WEBHOOKS = Command("webhooks", WebhookOptions, _webhooks)
