"""Server-side apply and the tracking of managed fields. Pure.

Read upwards: `values` and `elements` (a step of a path), `fieldsets` (a set of paths, which *is* FieldsV1),
`schema` (how lists and maps merge), then the operations on typed values: `validate`, `owned`, `compare`,
`merge`, `remove`, `reconcile`. `updater` is the algorithm for managers of any kind; `managers` reads and writes
``metadata.managedFields``; `tracking` is what a server calls.
Must not know: requests, stores, clocks (the time is an argument), conversion (a callback is an argument).
Source: KEP-555 (server-side apply), FieldsV1 of meta/v1.
"""
