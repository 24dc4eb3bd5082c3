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


def _new(options: NewOptions) -> int:
    """Make a project that serves an API: sources, tests, samples, Makefile, Dockerfile, CI.

    It is pinned to this version of oarlock. What is made is said line by line; oarlock add goes on from there.
    """
    from oarlock.cli import scaffolding  # noqa: PLC0415 (no other command needs it)

    return scaffolding.new(options)


def _resource(options: ResourceOptions) -> int:
    """Add a kind: its class, a collection for code, a sample, tests."""
    from oarlock.cli import scaffolding  # noqa: PLC0415 (no other command needs it)

    return scaffolding.resource(options)


def _virtual(options: VirtualOptions) -> int:
    """Add a kind whose objects are kept elsewhere: its class, a method for each verb, a sample, tests."""
    from oarlock.cli import scaffolding  # noqa: PLC0415 (no other command needs it)

    return scaffolding.virtual(options)


def _version(options: KindVersionOptions) -> int:
    """Add a version of a kind: its class, the conversion both ways, and a test that nothing gets lost.

    The version that a kind began with is the hub, which all others are converted to.
    """
    from oarlock.cli import scaffolding  # noqa: PLC0415 (no other command needs it)

    return scaffolding.version(options)


def _subresource(options: SubresourceOptions) -> int:
    """Add a subresource to a kind: a method of its collection, the classes it needs, a test."""
    from oarlock.cli import scaffolding  # noqa: PLC0415 (no other command needs it)

    return scaffolding.subresource(options)


def _controller(options: KindOptions) -> int:
    """Add a controller of a kind, and a test of it in virtual time."""
    from oarlock.cli import scaffolding  # noqa: PLC0415 (no other command needs it)

    return scaffolding.controller(options)


def _admission(options: AdmissionOptions) -> int:
    """Add an admission plugin of a kind, or of every kind, and a test."""
    from oarlock.cli import scaffolding  # noqa: PLC0415 (no other command needs it)

    return scaffolding.admission(options)


def _webhook(options: KindOptions) -> int:
    """Add what fills in and refuses objects of a kind, for the webhooks of a cluster as well, and a test.

    oarlock webhooks serves it to a cluster that keeps the objects; oarlock manifests --home=crd tells the cluster so.
    """
    from oarlock.cli import scaffolding  # noqa: PLC0415 (no other command needs it)

    return scaffolding.webhook(options)


def _update(options: AdditionOptions) -> int:
    """Bring the files that oarlock new wrote up to date with this version of oarlock.

    Lines that you changed stay as they are; where the templates changed the same lines, theirs are printed.
    """
    from oarlock.cli import scaffolding  # noqa: PLC0415 (no other command needs it)

    return scaffolding.update(options)


NEW = Command("new", NewOptions, _new)
UPDATE = Command("update", AdditionOptions, _update)
ADD = CommandGroup(
    "add",
    "Add to a project that oarlock new made. Nothing is overwritten; sources are edited by their syntax tree.",
    (
        Command("resource", ResourceOptions, _resource),
        Command("version", KindVersionOptions, _version),
        Command("subresource", SubresourceOptions, _subresource),
        Command("controller", KindOptions, _controller),
        Command("admission", AdmissionOptions, _admission),
        Command("virtual", VirtualOptions, _virtual),
        Command("webhook", KindOptions, _webhook),
    ),
)
