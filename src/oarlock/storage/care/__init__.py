"""What an operator does with a store as a whole: check, compact, backup, restore, copy, stats; one file each.

Beside a running server, the process of a command is one more process on the store: meanwhile the server can't trust
its own counter and asks the store for the current revision.

Must not know: how commands are given or printed, kinds, JSON. See also: ``oarlock.cli.storage``, the commands.
"""
