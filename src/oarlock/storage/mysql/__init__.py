"""A store in MariaDB or MySQL, by the algorithm of `oarlock.storage.sql` and the driver asyncmy.

address   what a URL says            session   one connection, set up alike on every server
literals  values as bytes of SQL     driver    tables, settings, whose history a server has
dialect   texts and tables           errors    the driver's errors in the protocol's
"""

__all__: list[str] = []
