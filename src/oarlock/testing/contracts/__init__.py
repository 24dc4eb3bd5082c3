"""Contract suites to subclass: `backend` for stores; `skipping` and `network`, stores for tests of what uses one.

Needs pytest; `histories` needs hypothesis.
"""

__all__: list[str] = []
