"""Authentication: from the credentials of a request to an `Identity`. See also: `authenticator`, the interface."""
