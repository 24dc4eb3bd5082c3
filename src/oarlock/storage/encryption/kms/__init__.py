"""Keys from a key management service (KMS v2): a plugin beside the server, asked over a unix socket.

An object is encrypted with a key derived from a random seed of this process; the seed, encrypted by the service, is
stored with each object. So the service is asked once a start and once a rotation, not once a write. `envelope` is what
is stored, `provider` holds the seed and what has been decrypted, `client` speaks to the service, in `messages`.

Must not know: rules, files. Source: k8s.io/apiserver ``storage/value/encrypt/envelope/kmsv2``, KEP-3299.
"""
