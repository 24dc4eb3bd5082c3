"""One file, durable, for several processes of one host. Read `backend` first, then `writer`, `feed` and `locks`.

backend     the protocol, and what joins the rest    reads, threads   snapshots, in threads of their own
writer      group commit                             feed, tailer     events in order, also of others
plan        what a batch does, pure                  locks, peers     who may commit, and who else is there
commits     the statements of a batch                schema, files    the tables, and opening them
compaction  forgetting history                       check, errors    is it sound; what SQLite's errors mean
presence    are the files still at the path          content          does the file still hold this store
"""

__all__: list[str] = []
