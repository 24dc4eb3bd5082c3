"""One request: from an HTTP message to the recipe that carries it out, and back to bytes.

The only package that knows URLs and media types, and the only one that turns an error into an HTTP
answer. It opens no socket: `http` says what a message is, ``server.serving`` carries it.
"""
