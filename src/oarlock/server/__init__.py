"""The server process: filters, listeners, start and shutdown.

The only package that opens sockets, reads the environment and starts long-lived tasks. See also: `chain`, the order of
filters; `app`, what users write; `assembly`, how a server is put together.
"""
