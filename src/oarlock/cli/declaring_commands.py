"""The commands that show what is declared: ``oarlock check`` and ``crd``."""

from __future__ import annotations

from oarlock.cli.crd.command import print_definitions
from oarlock.cli.describing import describe, warnings_about
from oarlock.cli.loading import DeclarationsArgument, ServerArgument, load_server
from oarlock.meta.dataclass import dataclass
from oarlock.server.options.commands import Command
from oarlock.server.options.option import argument, option
from oarlock.server.options.types import StringType, WordType

__all__ = ["CHECK", "CRD"]


def _check(options: ServerArgument) -> None:
    """Show what an APIServer would serve, and what is doubtful about it.

    Nothing is started and nothing is opened. A mistake is told in one line; the exit code is then 1.
    """
    loaded = load_server(options.server)
    for line in describe(loaded):
        print(line)
    for warning in warnings_about(loaded):
        print(f"doubtful: {warning}")


@dataclass(frozen=True, kw_only=True, repr=False)
class _CRD(DeclarationsArgument):
    resource: str = argument(
        StringType("RESOURCE.GROUP"), "Only this one, for example orders.shop.example.com.", default=""
    )
    output: str = option("yaml", WordType("FORMAT", "yaml", "json"), "The format: yaml or json.", in_file=False)


def _crd(options: _CRD) -> None:
    """Print declared classes as CustomResourceDefinitions, for any cluster and for oarlock up.

    What such a definition can't say, such as hooks and conversions, is told on stderr, one line each.
    """
    print_definitions(options.declarations, options.resource, options.output)


CHECK = Command("check", ServerArgument, _check)
CRD = Command("crd", _CRD, _crd)
