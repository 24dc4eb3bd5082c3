"""What the server does with objects of Kubernetes' declared kinds beyond storing them."""
