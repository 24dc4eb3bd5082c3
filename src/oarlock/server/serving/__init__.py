"""The HTTP server: TLS, HTTP/1.1 and HTTP/2, over asyncio transports.

Its interface is `oarlock.endpoints.http` (Request, Response, Stream); it knows nothing of Kubernetes. See also:
`listener` (listeners), `config` (limits), `eager` (how handlers run).
"""
