"""The contract of `oarlock.storage.backend` as a suite: subclass it for your backend and run pytest.

    class TestMine(BackendContract):
        def backend(self, folder, clock):
            return MyBackend(folder / "store", clock)

        def replica(self, folder, clock):           # only if several servers may share a store
            return MyBackend(folder / "store", clock)

        async def lose_after(self, backend, rev):   # only if the store may lose its newest history
            ...

Test names begin with the id of the promise they hold you to (R1, W2, V3…). They are for one process; what must
hold among processes and after ``kill -9`` (R4, M1, W4) needs processes, and is tested where a backend is.

Must not know: any particular backend. See also: `writes`, `lists`, `watches`, `upkeep`, `epochs`; `histories` for
random ones.
"""

from __future__ import annotations

from oarlock.testing.contracts.epochs import EpochContract
from oarlock.testing.contracts.lists import ListContract
from oarlock.testing.contracts.upkeep import CompactionContract, ExpiryContract
from oarlock.testing.contracts.watches import WatchContract
from oarlock.testing.contracts.writes import RevisionContract, WriteContract

__all__ = ["BackendContract"]


class BackendContract(
    RevisionContract,
    WriteContract,
    ListContract,
    WatchContract,
    CompactionContract,
    ExpiryContract,
    EpochContract,
):
    """Everything a backend promises, for one process and, with `replica`, for two servers in one process."""
