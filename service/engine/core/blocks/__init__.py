"""The block pool of the KV cache: free, held and cached blocks.

A block is an id; the backends store its keys and values.
"""
