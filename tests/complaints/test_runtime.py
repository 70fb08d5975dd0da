"""Checkpoints that outlive their ranks, and the same bits on every rank and in every run."""

import hashlib

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.testing import launch
from tests.complaints.preamble import full, mesh, put

P = jax.P


@pytest.mark.ranks(1)
def test_save_on_one_number_of_ranks_and_restore_on_another(tmp_path):
    """google/orbax#648, #646, #683; google/flax#5110"""
    program = f"""
        import sys
        import numpy as np
        import distad as jax
        import distad.numpy as jnp
        from distad import checkpoint
        P = jax.P
        n, where = jax.process_count(), {str(tmp_path / 'ck')!r}
        jax.set_mesh(jax.make_mesh((n,), ('X',)))
        x = jax.device_put(np.arange(12, dtype='f4'), P('X'))
        if checkpoint.latest_step(where) is None:
            checkpoint.save(where, {{'w': x, 'step': 3}})
        else:
            like = jax.ShapeDtypeStruct((12,), jnp.float32, sharding=x.sharding)
            t = checkpoint.restore(where, {{'w': like, 'step': 0}})
            assert t['step'] == 3 and jax.process_allgather(t['w']).tolist() == list(range(12))
            assert jax.typeof(t['w']) == jax.typeof(x)
        print('fine')
        """
    for n in (2, 1, 3):
        done = launch(program, n)
        assert done.returncode == 0 and done.stdout.count('fine') == n, done.stderr
    assert np.load(tmp_path / 'ck' / 'step-00000000' / 'w.npy').tolist() == list(range(12))


@pytest.mark.ranks(2, 4)
def test_the_same_bits_on_every_rank_and_every_run():
    """open-mpi/ompi PR#11721 and PR#12258; NVIDIA/nccl#157 and #434; quokka-astro/quokka#940"""
    n = jax.process_count()
    mesh(n)
    v = np.array([1e8, 1., -1e8, 1.], np.float32)[:n, None] * np.linspace(1, 2, 1000, dtype=np.float32)
    total = jax.shard_map(lambda v: lax.psum(v, 'X'), in_specs=P('X', None), out_specs=P(None, None))
    a = total(put(v, 'X', None))
    digest = hashlib.sha1(np.asarray(a.addressable_shards[0].data).tobytes()).digest()[:4]
    gather = jax.shard_map(lambda: lax.all_gather(jnp.asarray(np.frombuffer(digest, np.uint8).astype('f4')), 'X'),
                           in_specs=(), out_specs=P('X'))
    digests = full(gather()).reshape(n, n, 4)
    assert (digests == digests[0, 0]).all()
    for _ in range(5):
        np.testing.assert_array_equal(full(total(put(v, 'X', None))), full(a))
