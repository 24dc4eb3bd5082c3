"""Who asks: from the credentials of a request to a `User`. Next: `authenticator`, the protocol."""
