"""Admission: plugins in Python, called after authorization.

`plugin` is what users write, `gate` how the recipes of ``registry`` call it.
"""
