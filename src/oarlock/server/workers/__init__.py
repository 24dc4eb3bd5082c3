"""``oarlock serve --workers N``: several processes on one port and one store, under a supervisor that serves nothing.

    supervisor   binds the port, forks the workers, replaces those that die, passes signals on
    worker       one server process, as without ``--workers``, on the listening sockets it inherited
    table        shared memory: who is alive, who has how many connections
    exchange     shared memory: the metrics of each worker, so that any of them can sum all

Must not know: command lines, what is served. See also: ``server.lifecycle``, for a server process.
"""
