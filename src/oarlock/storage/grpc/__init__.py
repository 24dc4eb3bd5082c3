"""A gRPC client on asyncio: unary calls and streams of bytes. Messages are encoded by its users.

Source: the gRPC protocol over HTTP/2. Begin at `channel`.
"""
