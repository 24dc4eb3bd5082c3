"""Carries out ``oarlock new`` and ``oarlock add``: prompts for what is missing, shows or writes what changes.

See also: ``scaffold``, which knows what to write.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import url2pathname

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
from oarlock.server.about import VERSION
from oarlock.server.command import CommandError

try:
    from oarlock.scaffold.additions import (
        NewKind,
        add_admission,
        add_controller,
        add_resource,
        add_subresource,
        add_version,
        add_webhook,
    )
    from oarlock.scaffold.changes import Changes
    from oarlock.scaffold.edits import update as update_project
    from oarlock.scaffold.fields import read_field, read_fields
    from oarlock.scaffold.names import (
        ScaffoldError,
        check_group,
        check_kind,
        check_project,
        check_subresource,
        check_version,
        module_of,
    )
    from oarlock.scaffold.project import Project, new_project
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("libcst", "jinja2"):
        raise
    raise CommandError(f"{error.name} isn't installed: pip install 'oarlock[scaffold]'") from None


def _value(value: str, what: str, check: Callable[[str], str], how: str) -> str:
    """A value that was given, else one that is typed on the terminal. Raises `CommandError` without a terminal."""
    if value:
        return check(value)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandError(f"{what} is missing: {how}")
    while True:
        print(f"{what}: ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
        if not answer:
            raise CommandError(f"{what} is missing: {how}")
        try:
            return check(answer.strip())
        except ScaffoldError as error:
            print(f"  {error}", file=sys.stderr)


def _finish(options: AdditionOptions, changes: Changes) -> int:
    """Format what was made, then show or write it: the exit code."""
    changes.format()
    if options.diff:
        for line in changes.diff():
            print(line)
        return 0
    for line in changes.summary():
        print(f"  would {line}" if options.dry_run else f"  {line}")
    if not options.dry_run:
        try:
            changes.write()
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from None
    return 0


def _shown_errors(work: Callable[..., int]) -> Callable[[Any], int]:
    """A ScaffoldError becomes a CommandError, which is printed on one line."""

    def carried_out(options: Any) -> int:
        try:
            return work(options)
        except ScaffoldError as error:
            raise CommandError(str(error)) from None

    return carried_out


@_shown_errors
def new(options: NewOptions) -> int:
    """Make a project, and say how to go on."""
    name = _value(options.name, "the project's name", check_project, "oarlock new NAME --group GROUP")
    group = _value(options.group, "its API group, a domain of yours", check_group, "--group demo.example.com")
    if options.kind:
        check_kind(options.kind)
        check_version(options.version)
    parent = options.folder or Path()
    root = parent / name
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise ScaffoldError(f"{root} is there already, and stays as it is: choose another name, or another --folder")
    project, changes = new_project(root.absolute(), name, group, options.home, VERSION)
    if options.kind:
        kind = NewKind(options.kind, options.version, fields=(read_field("size:int=1"),), status=True)
        add_controller(project, changes, add_resource(project, changes, kind))
    source = _installed_from()
    if source:
        changes.create("local.mk", f"OARLOCK := {source}\n")
    if not options.diff:
        print(f"{root}: an API of {group}, for oarlock {VERSION}")
    _finish(options, changes)
    if not (options.diff or options.dry_run):
        print(f"\ncd {root}")
        print("make run     # serves, and prints the kubectl line to try")
        print("make test    # tests; make lint runs ruff and mypy")
        if not options.kind:
            print("oarlock add resource Foo --version v1    # a first kind")
    return 0


def _installed_from() -> str:
    """The folder or file that oarlock was installed from, empty if it was a package index."""
    try:
        text = importlib.metadata.distribution("oarlock").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return ""
    url = str(json.loads(text).get("url", "")) if text else ""
    return url2pathname(url.removeprefix("file://")) if url.startswith("file://") else ""


def _project() -> tuple[Project, Changes]:
    project = Project.find(Path.cwd())
    return project, Changes(project.root)


@_shown_errors
def resource(options: ResourceOptions) -> int:
    """Add a kind that is stored."""
    return _add_kind(options, status=options.status, scale=options.scale)


@_shown_errors
def virtual(options: VirtualOptions) -> int:
    """Add a kind that is kept elsewhere."""
    return _add_kind(options, virtual=True)


def _add_kind(options: VirtualOptions, **facts: bool) -> int:
    project, changes = _project()
    kind = NewKind(
        name=_value(options.kind, "the kind", check_kind, "oarlock add resource KIND --version VERSION"),
        version=_value(options.version, "its version", check_version, "--version v1"),
        plural=options.plural,
        short_names=options.short_name,
        fields=tuple(read_fields(options.field)) or (read_field("size:int=1"),),
        cluster_scoped=options.cluster_scoped,
        **facts,
    )
    add_resource(project, changes, kind)
    code = _finish(options, changes)
    if not (options.diff or options.dry_run):
        print(f"kubectl apply -f samples/{module_of(kind.name)}.yaml    # once it is served: make run")
    return code


@_shown_errors
def version(options: KindVersionOptions) -> int:
    """Add a version of a kind."""
    project, changes = _project()
    kind = _value(options.kind, "the kind", check_kind, "oarlock add version KIND VERSION")
    wanted = _value(options.version, "the new version", check_version, f"oarlock add version {kind} VERSION")
    add_version(project, changes, project.kind(kind), wanted)
    return _finish(options, changes)


@_shown_errors
def subresource(options: SubresourceOptions) -> int:
    """Add a subresource of a kind."""
    project, changes = _project()
    kind = _value(options.kind, "the kind", check_kind, "oarlock add subresource KIND NAME")
    name = _value(options.name, "the subresource", check_subresource, f"oarlock add subresource {kind} NAME")
    add_subresource(project, changes, project.kind(kind), name, options.of)
    return _finish(options, changes)


@_shown_errors
def controller(options: KindOptions) -> int:
    """Add a controller of a kind."""
    project, changes = _project()
    kind = _value(options.kind, "the kind", check_kind, "oarlock add controller KIND")
    add_controller(project, changes, project.kind(kind))
    return _finish(options, changes)


@_shown_errors
def admission(options: AdmissionOptions) -> int:
    """Add an admission plugin."""
    project, changes = _project()
    add_admission(project, changes, project.kind(options.kind) if options.kind else None)
    return _finish(options, changes)


@_shown_errors
def webhook(options: KindOptions) -> int:
    """Add what a cluster's webhooks answer with."""
    project, changes = _project()
    kind = _value(options.kind, "the kind", check_kind, "oarlock add webhook KIND")
    add_webhook(project, changes, project.kind(kind))
    code = _finish(options, changes)
    if not (options.diff or options.dry_run):
        print(f"oarlock webhooks {project.source}/server.py    # answers the reviews of a cluster")
    return code


@_shown_errors
def update(options: AdditionOptions) -> int:
    """Bring a project up to date, and say what its owner has otherwise."""
    project, changes = _project()
    left = update_project(project, changes, VERSION)
    if not changes.files():
        print(f"up to date with oarlock {VERSION}")
        return 0
    code = _finish(options, changes)
    for file in left:
        print(f"{file.path}: your lines stay where the templates have others, which would be:", file=sys.stderr)
        for line in file.lines:
            print(f"  {line}", file=sys.stderr)
    return code
