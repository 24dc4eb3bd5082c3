"""The versions of the kind Database say the same: nothing gets lost between v1 and v1beta1."""

from oarlock.testing import assert_round_trips

from databases.api.v1.database import Database
from databases.api.v1beta1.database import Database as DatabaseV1beta1


def test_no_version_loses_anything() -> None:
    assert_round_trips(Database, DatabaseV1beta1)
