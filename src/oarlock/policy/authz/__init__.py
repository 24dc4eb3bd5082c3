"""Authorization: whether a user may do what a request asks for. See also: `authorizer`, the interface."""
