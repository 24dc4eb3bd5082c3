"""``oarlock storage check``: looks for damage."""

from __future__ import annotations

import asyncio

from oarlock.cli.storage.encryption import encryption_of
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command
from oarlock.server.options.groups.storage import ReadStoreOptions
from oarlock.storage.care.check import check

__all__ = ["CHECK"]


def _check(options: ReadStoreOptions) -> None:
    """Look for damage.

    Prints one line for each finding; the exit code is 1 if there is any.
    """
    findings = asyncio.run(check(options.storage, wrap=encryption_of(options)))
    for finding in findings:
        print(finding)
    if findings:
        count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
        raise CommandError(f"{count} in {options.shown_storage}: stop its servers and restore it from a backup")
    print(f"{options.shown_storage}: sound")


CHECK = Command("check", ReadStoreOptions, _check)
