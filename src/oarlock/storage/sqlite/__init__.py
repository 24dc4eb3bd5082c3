"""A durable store in one file, for several processes on one host.

What is stored and how a batch is decided is in `oarlock.storage.sql`. Read `backend` first, then `writer`, `locks`.

backend     the protocol, using all modules below    threads, steps   snapshots, in threads of their own
writer      group commit                             dialect          SQLite's statements
schema      the tables, and opening them             locks, peers     the right to commit; other processes
check       are the pages sound                      files, errors    the files on disk; SQLite's errors
presence    are the files still at the path          content          was another store copied over the file
"""

__all__: list[str] = []
