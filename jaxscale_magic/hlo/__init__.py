"""Reading a compiled XLA module: protobuf -> typed graph -> FLOPs, bytes, trip counts, collectives.

`read.py` makes the graph of `graph.py`; `count.py` walks it and fills the records of `jaxscale_magic.cost`.
Nothing here knows a chip.
"""
