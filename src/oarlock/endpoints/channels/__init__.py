"""Upgraded connections for users' subresources: WebSockets with Kubernetes' channels, and raw pipes.

`upgrades` parses the upgrade request, `protocols` the channel messages, `websocket_frames` the WebSocket (no I/O);
`inlet` buffers received data; `over_websocket` and `over_pipe` connect them to a tunnel. See also: ``verbs.connect``.
"""
