"""One file per verb, each a short function from a `RequestState` and its `ResourceRoute` to a `Response`.

A verb reads the options, calls the recipe and chooses how the result is shown. ``bodies`` reads the body, ``registry``
does the work, ``respond`` and ``lists`` write the answer.
"""
