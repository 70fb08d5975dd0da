"""The tests run under mpirun (`make test`); `distad.testing` says how to write one."""

import os

# Before NumPy is imported: ranks share the cores, so each computes with one thread.
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
os.environ.setdefault('OMP_NUM_THREADS', '1')

from hypothesis import HealthCheck, Phase, settings  # noqa: E402

pytest_plugins = ['distad.testing']

# All ranks must try the same examples, so nothing may depend on chance, on earlier runs or on the time.
settings.register_profile(
    'ranks', derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate, Phase.shrink))
settings.load_profile('ranks')
