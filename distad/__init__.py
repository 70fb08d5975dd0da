"""distad: distributed automatic differentiation on MPI, with shardings in the types of arrays.

    import distad as jax
    import distad.numpy as jnp

Run a program with `mpirun -n N python program.py`: each rank is a device and holds its blocks. Names and meanings are JAX's.
`import distad` starts no MPI; the first mesh or device does.
"""

from distad import (
    ad_checkpoint,
    checkpoint,
    custom_batching,
    custom_derivatives,
    debug,
    dtypes,
    errors,
    experimental,
    extend,
    interpreters,
    lax,
    nn,
    numpy,
    ops,
    profiler,
    random,
    scipy,
    sharding,
    tree,
    tree_util,
    typing,
)
from distad.api import eval_shape, grad, jvp, linearize, make_jaxpr, value_and_grad, vjp
from distad.callbacks import pure_callback
from distad.config import config, debug_nans, default_matmul_precision, disable_jit, enable_x64
from distad.control import policies as checkpoint_policies
from distad.control.custom_rules import closure_convert, custom_jvp, custom_vjp
from distad.control.jit import jit
from distad.control.naming import named_call
from distad.control.remat import checkpoint as remat
from distad.control.shard_map import shard_map
from distad.control.smap import smap
from distad.control.vmap import vmap
from distad.core.eager import ensure_compile_time_eval
from distad.core.jaxpr import scope as named_scope
from distad.core.value import Array, typeof
from distad.errors import (
    CheckpointError,
    DisagreementError,
    DuplicateSpecError,
    IndivisibleError,
    LauncherMismatchError,
    ShardingTypeError,
)
from distad.implicit import custom_linear_solve as _custom_linear_solve
from distad.implicit import custom_root as _custom_root
from distad.jacobian import hessian, jacfwd, jacrev
from distad.lax.placement import (
    block_until_ready,
    default_backend,
    device_count,
    device_get,
    device_put,
    devices,
    local_device_count,
    local_devices,
    make_array_from_callback,
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
    make_mesh,
    process_allgather,
    process_count,
    process_index,
    reshard,
)
from distad.linear import linear_transpose
from distad.numpy import methods as _methods
from distad.plan import plan
from distad.segment import segment_max, segment_min, segment_prod, segment_sum
from distad.source import boundary as _boundary
from distad.source import bounded as _bounded
from distad.types.array_type import ArrayType
from distad.types.dtypes import float0
from distad.types.mesh import AbstractMesh, AxisType, Device, Mesh, get_abstract_mesh, get_mesh, set_mesh
from distad.types.sharding import NamedSharding
from distad.types.spec import P
from distad.types.struct import ShapeDtypeStruct

PartitionSpec = P
__version__ = '0.1.0'

_bounded(globals())
for _f in (segment_max, segment_min, segment_prod, segment_sum):         # JAX has them beside the primitives
    setattr(ops, _f.__name__, _f)
for _f in (_custom_linear_solve, _custom_root):
    setattr(lax, _f.__name__, _boundary(_f))
