"""Whether a user may do what a request is about. Next: `authorizer`, the protocol."""
