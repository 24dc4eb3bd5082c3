"""Custom resources: definitions that arrive as objects, and how their objects are converted.

See also: `conversion`, between the versions of one definition.
"""

from __future__ import annotations
