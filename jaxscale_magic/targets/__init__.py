"""Compiling one captured program: for the devices that are here, or for a chip that is not.

`compile.py` hands back plain records (module bytes, memory statistics); reading them is `hlo/`'s business.
"""
