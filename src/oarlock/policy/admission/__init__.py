"""Who else has a say in a write: plugins in Python, asked after authorization.

`plugin` is what users write, `gate` how the recipes of ``registry`` ask.
"""
