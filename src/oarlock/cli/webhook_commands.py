"""The commands ``oarlock webhooks`` and ``oarlock run``: code of a server, for a cluster that has its definitions.

See also: ``apps.webhooks.server``; `running`; `declaring_commands`, which prints the definitions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from oarlock.apps.webhooks.server import WebhookServer, not_in_webhooks, reviewed
from oarlock.cli.cluster_options import ElectionOptions, RunOptions
from oarlock.cli.deploying.webhook_objects import referring_objects
from oarlock.cli.loading import DeclarationsArgument, DeclaredCode, load_code
from oarlock.cli.running import by_lease, election_of, run
from oarlock.client.http_transport import connect
from oarlock.client.login.kubeconfig import ClientConfigError, load_config
from oarlock.controllers.controller import ClusterControllers
from oarlock.meta.dataclass import dataclass
from oarlock.registry.served import Served
from oarlock.server.command import CommandError, ServeOptions, serve_with, set_up_logging
from oarlock.server.options.commands import Command, read_options
from oarlock.server.options.option import Problem, option, options_of
from oarlock.server.options.types import BooleanType, PathType, StringType

MEMORY = "memory://"
"""The store of a server that keeps nothing."""


@dataclass(frozen=True, kw_only=True, repr=False)
class WebhookOptions(DeclarationsArgument, ServeOptions, ElectionOptions):
    """The options of ``oarlock webhooks``."""

    title = ""

    cluster_kubeconfig: Path | None = option(
        None,
        PathType(),
        "The kubeconfig of the cluster that informers read. By default KUBECONFIG, a pod's service account, or "
        "~/.kube/config.",
        flag="kubeconfig",
        in_file=False,
    )
    context: str = option("", StringType("NAME"), "The context of that kubeconfig.", in_file=False)
    configuration: str = option(
        "",
        StringType("NAME"),
        "The name of the cluster's configurations of these webhooks, for --serving-certificate-secret. By default "
        "the server's name.",
        in_file=False,
    )
    controllers: bool = option(
        False,
        BooleanType(),
        "Run the controllers of the server against the cluster, too, as oarlock run does.",
        in_file=False,
    )

    def check(self) -> Iterator[Problem]:
        if self.storage not in (ServeOptions().storage, MEMORY):
            yield Problem("storage", "leave it out: the cluster keeps the objects")


def webhook_server(options: WebhookOptions) -> WebhookServer:
    """The webhooks of what is declared. Raises `CommandError`, `DeclarationError`."""
    where, kubeconfig, context = options.declarations, options.cluster_kubeconfig, options.context
    code = load_code(where)
    resources = reviewed(code.resources)
    if not resources:
        raise CommandError(f"{where}: it stores no resource of its own, and webhooks are about stored objects")
    groups: list[ClusterControllers] = []
    if code.user_code.informers or options.controllers:
        try:
            namespace = load_config(kubeconfig, context=context).namespace
        except ClientConfigError as error:
            raise CommandError(f"the code works with objects of a cluster: {error}") from None
        groups = [*_groups(code, options, namespace)] if options.controllers else []
    return WebhookServer(
        resources=resources,
        code=code.user_code,
        connect=partial(connect, kubeconfig, context=context),
        controllers=groups,
        name=code.name,
        referring_objects=referring_objects(resources, code.user_code, options.configuration or code.name),
    )


def _groups(code: DeclaredCode, options: WebhookOptions, namespace: str) -> Iterator[ClusterControllers]:
    controllers = code.controllers
    if not controllers:
        raise CommandError(f"{options.declarations}: it has no controllers to run")
    for several, election in by_lease(controllers, election_of(options, options.declarations, namespace)):
        group = ClusterControllers(several, election=election)
        group.kubeconfig, group.context = options.cluster_kubeconfig, options.context
        yield group


def told(resources: list[Served]) -> Iterator[str]:
    """What of their code stays undone in a cluster, a line each."""
    for served in resources:
        for text in not_in_webhooks(served):
            yield f"{served.definition.names.kind}: not in a cluster: {text}"


def _webhooks(options: WebhookOptions) -> int:
    """Serve the code of declared resources as webhooks, for a cluster that has their CustomResourceDefinitions.

    A mutating webhook is at /mutate, a validating one at /validate, and conversion at /convert. oarlock manifests
    --home=crd prints their configurations for a cluster.
    """
    set_up_logging(options.verbosity)
    server = webhook_server(options)
    for line in told([resource.served for resource in server.resources]):
        print(f"oarlock: {line}", file=sys.stderr)
    return serve_with(server, options)


def run_beside(options: RunOptions) -> int:
    """Run controllers, and serve webhooks beside them, by the options of ``oarlock run``: the exit code."""
    words = [options.controllers, "--controllers"]
    if options.webhooks_config is not None:
        words.append(f"--config={options.webhooks_config}")
    read = read_options(WebhookOptions, words, "oarlock run")
    same = {each.field: getattr(options, each.field) for each in options_of(ElectionOptions)}
    given = replace(read, cluster_kubeconfig=options.kubeconfig, context=options.context, **same)
    return _webhooks(given if not options.verbosity else replace(given, verbosity=options.verbosity))


def _run(options: RunOptions) -> int:
    """Run controllers outside of a server, until SIGTERM or SIGINT.

    FILE contains a list called controllers, or an APIServer with controllers. The log goes to stderr.
    """
    return run_beside(options) if options.webhooks else run(options)


RUN = Command("run", RunOptions, _run)
WEBHOOKS = Command("webhooks", WebhookOptions, _webhooks)
