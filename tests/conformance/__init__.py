"""The library against recorded answers of JAX 0.12.

`data/` holds what JAX answered to thousands of small expressions and to whole programs: types, values, gradients,
errors, numbers of collectives.  Each file here has one task:

    cases.py      read a case and rebuild its inputs (plain NumPy)
    harness.py    run a case on all ranks and collect what happened
    judge.py      compare what happened with the record
    reasons.py    where we answer otherwise than the record, and why
    __main__.py   mpirun -n 4 python -m tests.conformance unary binary

Where an answer rests on a reason and not on the record, its value is compared with that of the same program on
replicated inputs.
"""
