"""The ``oarlock`` command. See also: `commands`."""

from __future__ import annotations

from oarlock.cli.commands import main

__all__ = ["main"]
