"""The machines example: an adapter. Machines live in somebody else's database; Kubernetes' clients work with them.

`inventory` stands for the database and knows nothing of Kubernetes; `api` says what clients see, `machines` is between
the two, `server` lists what is served.
"""
