"""What carries requests and answers: TLS, HTTP/1.1 and HTTP/2, over asyncio transports.

Above it only `oarlock.endpoints.http` is visible (Request, Response, Stream), so another server could stand
here. Knows no Kubernetes. Next: `server` (listeners), `config` (limits), `eager` (how handlers run).
"""
