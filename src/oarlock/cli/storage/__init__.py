"""``oarlock storage``: commands that look after a store. They are listed in `commands`.

They only read options and show results. See also: ``oarlock.storage.care``, which does the work.
"""
