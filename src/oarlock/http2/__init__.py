"""HTTP/2 as bytes: frames and header blocks, for servers and clients alike. Pure."""
