"""A store in PostgreSQL 13 or later, which any number of servers share.

url      the forms of the URL                      driver   `PostgresDriver`: connecting, the tables
dialect  PostgreSQL's statements                   session  one connection, by asyncpg
tables   making and recognising the tables         errors   PostgreSQL's errors

What is stored and how is in `oarlock.storage.sql`; what drives it in `oarlock.storage.sql.server`.
"""

__all__: list[str] = []
