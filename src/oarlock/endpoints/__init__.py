"""HTTP requests: routing, negotiation, the verbs, and answers as bytes.

The only package that knows URLs and media types, and the only one that turns an error into an HTTP answer. It opens no
socket: `http` defines messages, ``server.serving`` transports them.
"""
