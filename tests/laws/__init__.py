"""The laws that every primitive keeps, on every placement of its operands.

`test_primitives` walks `distad.ops` and `distad.control` for primitives and takes each one's example calls from `tables`; a
primitive without calls is a failing test. A call is put on a mesh in all ways that its types allow (`placements`), and each
way is observed (`laws`):

1. it is rejected by type, or its value is that of the call on whole operands, which is the value NumPy gives;
2. results have the inferred types: blocks of their shapes and dtypes, and copies are equal;
3. tangents have the types of results and the values of finite differences, in the first order and (on whole operands and on
   every third placement) in the second;
4. <A x, y> = <x, A^T y>, and cotangents have the types that those of their primals ask for;
5. nothing is sent, unless sending is what the primitive is for.

The laws of values (1, 3, 4) are shown on whole operands first (`reference`). What a placement gives is then compared with that,
part by part, so finite differences and references are computed once. Ops that change how a value lies along a manual axis mean
nothing on one rank; `exchanges` says what they mean on all. `test_laws` shows that each kind of fault is found, and
`test_programs` asks the same of small random programs of kind functions.
"""
