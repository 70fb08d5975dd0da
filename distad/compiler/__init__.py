"""From a typed program to one Python function over blocks.

Since ops are local by their types, the typed program is the per-rank program: there is nothing to partition. Passes walk the
jaxpr (`dce`), then `codegen` writes Python source in which every equation is one call of a bound kernel.
"""
