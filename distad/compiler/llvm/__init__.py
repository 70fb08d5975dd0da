"""Fused groups as machine code: each group is a loop nest in LLVM's language, compiled by llvmlite (the extra `distad[llvm]`).

`emit` writes instructions. `functions`, `inverses`, `powers`, `digits`, `integers`, `complexes` and `halves` make exp, division and
the like of them; `scalars` says what each primitive is on one element. `schedule`, `layout` and `strips` say what is computed when,
by which loops and in which stages; `accesses` and `sums` write loads, stores and reductions, and `loops` the nest. `engine` compiles,
caches and calls.
"""
