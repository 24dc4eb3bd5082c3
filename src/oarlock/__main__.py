"""``python -m oarlock``: the same as the ``oarlock`` command."""

from __future__ import annotations

from oarlock.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
