"""What users of sharded arrays have complained of elsewhere, each report turned into a test.

Silent factors of the number of ranks, gradients that lost their sum, reads of one rank's part, sizes that don't divide,
promotion to float64: every test states the right behaviour in its name and docstring and checks it on real ranks.
"""
