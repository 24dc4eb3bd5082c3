"""A durable store in one file, for several processes on one host.

Read `backend` first, then `writer`, `feed` and `locks`.

backend     the protocol, using all modules below    reads, threads   snapshots, in threads of their own
writer      group commit                             feed, tailer     events in order, from all processes
plan        what a batch does, pure                  locks, peers     the right to commit; other processes
commits     the statements of a batch                schema, files    the tables, and opening them
compaction  removing history                         check, errors    consistency check; SQLite's errors
presence    are the files still at the path          content          was another store copied over the file
"""

__all__: list[str] = []
