"""HTTP/2: frames and header blocks, for servers and clients alike, and the client's side of a connection."""
