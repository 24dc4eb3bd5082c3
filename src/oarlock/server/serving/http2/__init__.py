"""HTTP/2 (RFC 9113). Read `connection` first."""
