"""What the server does with its kinds beyond storing them."""
