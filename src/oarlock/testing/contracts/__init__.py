"""What implementations must keep, as suites to subclass: `backend` for stores, `skipping` for what stands above them.

Needs pytest; `histories` needs hypothesis.
"""

__all__: list[str] = []
