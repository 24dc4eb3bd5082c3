"""A store in the database of a server, for any number of processes on any number of machines.

    put, delete ──► queue ──► group commit ──► result, and its events ──► feed (watches)
    get, list   ──► a session of the pool
    others' commits ──► hint or poll ──► tailer ──► feed

backend      `SqlServerBackend`, the protocol            session  what a driver provides
connections  opened, tried, used again, with back-off    writer   group commit
origin       which history of the data a server has

A kind of server is a `session.Driver` and a dialect: see `oarlock.storage.postgres`.
"""

__all__: list[str] = []
