"""The one algorithm of every store in SQL, written once for drivers that block and drivers that wait.

    batch → lock the meta row → state of the batch's keys → decide → bulk write → commit → hint

statements  an operation is a generator of statements   dialect     the texts, and what differs
plan        what a batch does, pure                      commits     a batch in a transaction
reads       get, list, count, ranges of the log          compaction  removing history
feed        events in order to the watches               tailer      events that others committed
watching    a watch: the log, then the feed              expiry      keys with a time to live
check       what must hold in the tables                 errors      a store that can't be trusted

`oarlock.storage.sqlite` runs it in threads, `server` on the event loop for the drivers of database servers.
"""

__all__: list[str] = []
