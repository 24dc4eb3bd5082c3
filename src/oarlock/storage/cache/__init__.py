"""The watch cache: every object of a store in this process's memory, kept current by one watch of the backend.

Reads are answered from here, and so are watches; writes pass through and have been applied here before they
return. The cache knows keys, bytes and revisions; what an object is, it learns from a `describe` function that
the floor above hands in.

Read `entry` (what is kept of an object), `events` (what a watcher is given), then `resource` (one resource) and
`cache` (the process: who follows the store, and what "up to date" means). `leaves`, `ring` and `roots` are the
data structures, `loading` what happens at the start.
"""
