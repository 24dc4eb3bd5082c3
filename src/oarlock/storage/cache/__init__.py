"""The watch cache: every object of a store in this process's memory, kept current by one watch of the backend.

Reads and watches are answered from the cache; writes go through to the backend and have been applied to the cache
when they return. The cache knows keys, bytes and revisions. The caller passes a `describe` function that knows
what an object is.

Read `entry` (one object), `events` (what a watcher gets), then `resource_cache` (one resource) and `watch_cache` (all
resources of the process, and read freshness). `state` has the data structures, `loading` is the
initial list.
"""
