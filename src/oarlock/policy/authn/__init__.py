"""Authentication: from the credentials of a request to a `User`. See also: `authenticator`, the interface."""
