"""What is filled in and refused of the kind Website, also where a cluster keeps the objects.

oarlock webhooks src/websites/server.py    answers the reviews of a cluster with it
"""

from oarlock import Admission, Denied, Review

from ..api.v1.website import Website

CREATOR = "web.example.com/creator"


class WebsiteCreator(Admission[Website], operations=["CREATE", "UPDATE"]):
    """Writes down who made an object, which nobody may change afterwards."""

    waits = False  # it asks nobody, so a request needs no task for it

    async def mutate(self, review: Review[Website]) -> None:
        if review.operation == "CREATE":
            review.object.metadata.annotations[CREATOR] = review.user.name

    async def validate(self, review: Review[Website]) -> None:
        before = review.old_object
        if before is None or CREATOR not in before.metadata.annotations:
            return
        if review.object.metadata.annotations.get(CREATOR) != before.metadata.annotations[CREATOR]:
            raise Denied(f"the annotation {CREATOR} of {before.metadata.name} stays as it is")
