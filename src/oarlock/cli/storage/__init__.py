"""``oarlock storage``: commands that look after a store. One file each, listed in `commands`.

They only read options and show results. See also: ``oarlock.storage.care``, which does the work.
"""
