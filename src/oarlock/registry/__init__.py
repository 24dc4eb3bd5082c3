"""Create, read, update and delete for one resource, and the base classes of users' collections.

Registry alone sets uid, generation and deletionTimestamp. It is given a `Context`, trees and a `Gate` (admission) and
returns what to show. It must not know URLs or media types. Read `served` first, then `stored.resource`, then `create`,
`update`, `delete` and `read`.
"""
