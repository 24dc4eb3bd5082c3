"""One file per verb, each a short function from an `Exchange` and its `Route` to a `Response`.

A verb reads the options, has the recipe carried out and says how the result is shown. Everything else is
somebody else's: ``bodies`` reads, ``registry`` decides, ``respond`` and ``lists`` write.
"""
