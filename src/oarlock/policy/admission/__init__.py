"""Admission: plugins in Python, called after authorization.

`plugin` is what users write, `chain` what the recipes of ``registry`` call, `typed` stands between the two.
"""
