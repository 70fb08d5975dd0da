"""What runs on each rank: its blocks, and how they travel. The one layer that knows a rank's number.

    launch        what the launcher said in the environment
    exits         how a rank that fails or leaves ends the whole job
    waiting       trying, sleeping and the deadline
    world         what a rank knows of the run, as data
    mpi           the world, and a communicator for any mesh axes; the only importer of mpi4py
    starting      what is put right once MPI has started
    presence      who has left, and so will not come
    overdue       the deadline has passed: what is asked of other nodes, and the end
    clocks        by how much the clocks of ranks differ
    aside         a communicator for threads beside the program
    mpi_io        files that many ranks write at once
    recorder      a record of every collective: ring buffer, counters, log line
    blackbox      the last collectives of each rank, in memory that the ranks of a node share
    watchdog      the report on a collective that did not come together, and the end of the job
    agreement     whether ranks run the same program and hold the same values
    values        the operation that gives NaN
    timeline      what a rank did when, as a file
    collectives   the few collectives, any dtype, each through one function that records and waits with a deadline
    blocks        which part of an array lies on which rank
    moves         from one type to another: the plan, and carrying it out
"""
