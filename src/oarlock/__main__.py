"""``python -m oarlock``: the same as the ``oarlock`` command."""

from __future__ import annotations

from oarlock.cli import main

if __name__ == "__main__":
    main()
