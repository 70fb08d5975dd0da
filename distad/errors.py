"""Every class of error that distad raises by name, in one tree.

    DistadError
    |-- BudgetError                  more was sent than a budget allows              (also an AssertionError)
    |-- CheckpointError              a checkpoint that cannot be written or read        (also an OSError)
    |-- ShardingTypeError            the types of the operands do not fit together
    |   `-- VaryingPredicateError    a collective stands under a branch that ranks may take differently
    |-- DuplicateSpecError           one mesh axis on two array dimensions
    |-- ForbiddenCollectiveError     a collective where the user said there is none
    |-- IndivisibleError             a dimension does not divide by its mesh axes         (also a ValueError)
    |-- ShapeError                   shapes that do not broadcast          (also a ValueError and a TypeError)
    |-- TreeMismatchError            two pytrees of different structure                   (also a ValueError)
    |-- UnexpectedTracerError        a traced value that outlived its trace
    |-- ConcretizationTypeError      a traced value where Python needs a number           (also a TypeError)
    |   |-- TracerArrayConversionError
    |   |-- TracerBoolConversionError
    |   `-- TracerIntegerConversionError
    |-- NonConcreteBooleanIndexError a traced mask as an index                           (also an IndexError)
    `-- ClusterError                 the ranks, not the program                           (also a RuntimeError)
        |-- LauncherMismatchError    mpirun and the MPI library do not know each other
        |-- DisagreementError        the ranks do not run the same program
        `-- CollectiveTimeoutError   a collective outlasted its deadline

Classes that Python or NumPy would raise (ValueError for a wrong shape, TypeError for a wrong dtype) are used as
they are where no name of ours says more.
"""

from __future__ import annotations


class DistadError(Exception):
    """The root of the tree: what distad says by name."""


class BudgetError(DistadError, AssertionError):
    """A block of a program that sent more than `communication_budget` allows."""


class CheckpointError(DistadError, OSError):
    """A checkpoint that a rank cannot write, that is not there, or whose files are not what they were."""


class ShardingTypeError(DistadError):
    """The sharding, unreduced, reduced or varying part of some types does not fit the operation."""


class VaryingPredicateError(ShardingTypeError):
    """A collective under a predicate that ranks may evaluate differently: some would wait for ever."""


class DuplicateSpecError(DistadError):
    """A sharding that lays two array dimensions along one mesh axis."""


class ForbiddenCollectiveError(DistadError):
    """A collective inside `no_collectives`."""


class IndivisibleError(DistadError, ValueError):
    """A dimension whose size is no multiple of the sizes of its mesh axes."""


class ShapeError(DistadError, ValueError, TypeError):
    """Operands whose shapes do not broadcast. NumPy raises ValueError for it, JAX one or the other."""


class TreeMismatchError(DistadError, ValueError):
    """Two pytrees whose structures differ; the message names the path."""


class UnexpectedTracerError(DistadError):
    """A traced value used after the function that was traced had returned."""


class ConcretizationTypeError(DistadError, TypeError):
    """A traced value, which has a type but no number yet, where Python asks for the number."""


class TracerArrayConversionError(ConcretizationTypeError):
    """A traced value given to NumPy."""


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value as the condition of a Python `if` or `while`."""


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced value as an index of a Python sequence."""


class NonConcreteBooleanIndexError(DistadError, IndexError):
    """A traced mask as an index: how many elements it picks, and so a shape, is not known."""


class ClusterError(DistadError, RuntimeError):
    """What goes wrong among the ranks rather than in the program's types."""


class LauncherMismatchError(ClusterError):
    """The launcher and the MPI library do not know each other, so that every process believes it is alone."""


class DisagreementError(ClusterError):
    """The ranks traced different programs."""


class CollectiveTimeoutError(ClusterError):
    """A collective that some rank did not join before the deadline."""


JaxRuntimeError = ClusterError                       # JAX's name for what goes wrong below the program
