"""Whole servers and parts of them, made of public names only: `kinds`, `controlplane`.

Whatever is here, a user could have written. If something can't be said with public names, they are missing something.
"""

from __future__ import annotations
