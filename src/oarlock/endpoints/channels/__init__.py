"""Connections that left HTTP, as users' code sees them: WebSockets with Kubernetes' channels, and raw pipes.

`upgrades` reads what a request asks for, `protocols` is what messages mean, `frames` the WebSocket without I/O,
`inlet` what waits to be read; `over_websocket` and `over_pipe` join them to a tunnel. Next: ``verbs.connect``.
"""
