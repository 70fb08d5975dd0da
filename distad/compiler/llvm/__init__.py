"""Fused groups as machine code: each group is a loop nest in LLVM's language, compiled by llvmlite (the extra `distad[llvm]`).

`emit` writes instructions. `functions`, `inverses`, `powers`, `digits`, `integers`, `complexes` and `halves` make exp, division and
the like of them; `scalars` says what each primitive is on one element, `loops` makes the nest of a group, and `engine` compiles,
caches and calls.
"""
