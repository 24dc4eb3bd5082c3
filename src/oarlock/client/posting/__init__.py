"""POST requests with small answers, over HTTP/2 or HTTP/1.1, to servers that are somebody else's programs."""
