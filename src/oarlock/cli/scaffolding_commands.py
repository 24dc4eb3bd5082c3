"""The commands that make projects and add to them: ``oarlock new`` and ``oarlock add``.

What is missing is asked for on a terminal, and named elsewhere. See also: `scaffolding`, which does it.
"""

from __future__ import annotations

from oarlock.cli.scaffolding_options import (
    AdditionOptions,
    AdmissionOptions,
    KindOptions,
    KindVersionOptions,
    NewOptions,
    ResourceOptions,
    SubresourceOptions,
    VirtualOptions,
)
from oarlock.server.options.commands import Command, CommandGroup

_ABOUT = {
    "new": """Make a project that serves an API: sources, tests, samples, Makefile, Dockerfile, CI.

    It is pinned to this version of oarlock. What is made is said line by line; oarlock add goes on from there.
    """,
    "resource": "Add a kind: its class, a collection for code, a sample, tests.",
    "virtual": "Add a kind whose objects are kept elsewhere: its class, a method for each verb, a sample, tests.",
    "version": """Add a version of a kind: its class, the conversion both ways, and a test that nothing gets lost.

    The version that a kind began with is the hub, which all others are converted to.
    """,
    "subresource": "Add a subresource to a kind: a method of its collection, the classes it needs, a test.",
    "controller": "Add a controller of a kind, and a test of it in virtual time.",
    "admission": "Add an admission plugin of a kind, or of every kind, and a test.",
    "webhook": """Add what fills in and refuses objects of a kind, for the webhooks of a cluster as well, and a test.

    oarlock webhooks serves it to a cluster that keeps the objects; oarlock manifests --home=crd tells the cluster so.
    """,
    "update": """Bring the files that oarlock new wrote up to date with this version of oarlock.

    Lines that you changed stay as they are; where the templates changed the same lines, theirs are printed.
    """,
}
"""The help of each command, by the name of the function of `scaffolding` that carries it out."""


def _command(name: str, options: type[AdditionOptions]) -> Command:
    def run(given: AdditionOptions) -> int:
        from oarlock.cli import scaffolding  # noqa: PLC0415 (no other command needs it)

        code: int = getattr(scaffolding, name)(given)
        return code

    return Command(name, options, run, _ABOUT[name])


NEW = _command("new", NewOptions)
UPDATE = _command("update", AdditionOptions)
ADD = CommandGroup(
    "add",
    "Add to a project that oarlock new made. Nothing is overwritten; sources are edited by their syntax tree.",
    (
        _command("resource", ResourceOptions),
        _command("version", KindVersionOptions),
        _command("subresource", SubresourceOptions),
        _command("controller", KindOptions),
        _command("admission", AdmissionOptions),
        _command("virtual", VirtualOptions),
        _command("webhook", KindOptions),
    ),
)
