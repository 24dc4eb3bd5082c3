"""Contract suites to subclass: `backend` for stores; `skipping`, a store for tests of what uses one.

Needs pytest; `histories` needs hypothesis.
"""

__all__: list[str] = []
