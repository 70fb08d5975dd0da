"""Record what JAX draws, once, where JAX 0.12 is installed: `python tests/random/record.py > tests/random/data.json`.

Three tables. `words` are facts about the cipher: keys, splits, folds and bits, all integers, to be met bit for bit.
`samples` are calls of public functions, with the text of the call, so that the test makes the same call here; `batched`
are such calls under vmap.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

SEEDS = [0, 1, -7, 2**31 - 1]
LONG_SEEDS = [2**40 + 3, -(2**50)]

SAMPLES = [
    'random.uniform(random.key(0), (2, 3))',
    'random.uniform(random.key(1), (5,), "bfloat16")',
    'random.uniform(random.key(1), (5,), "float16")',
    'random.uniform(random.key(2), (4,), minval=-1.5, maxval=4.)',
    'random.uniform(random.key(2), (2, 3), minval=jnp.arange(3.), maxval=3)',
    'random.normal(random.key(3), (2, 3))',
    'random.normal(random.key(3), (5,), "bfloat16")',
    'random.normal(random.key(3), (3,), "complex64")',
    'random.randint(random.key(4), (6,), 0, 10)',
    'random.randint(random.key(4), (6,), -1000, 1000, "int8")',
    'random.randint(random.key(4), (4,), 0, jnp.array([1, 5, 0, 2]))',
    'random.randint(random.key(4), (4,), jnp.array([-1000, 0, 5, 7]), 1000, "int8")',
    'random.randint(random.key(4), (4,), 0, 1000000, "uint32")',
    'random.randint(random.key(4), (4,), 0, 256, "uint8")',
    'random.permutation(random.key(5), 12)',
    'random.permutation(random.key(5), 1626)[:8]',
    'random.permutation(random.key(5), jnp.arange(12).reshape(4, 3))',
    'random.permutation(random.key(5), jnp.arange(12).reshape(4, 3), axis=1)',
    'random.permutation(random.key(5), jnp.arange(12).reshape(4, 3), axis=1, independent=True)',
    'random.bernoulli(random.key(6), shape=(8,))',
    'random.bernoulli(random.key(6), jnp.array([.1, .5, .9]), (2, 3))',
    'random.bernoulli(random.key(6), .3, (8,), mode="high")',
    'random.categorical(random.key(7), jnp.arange(12.).reshape(3, 4))',
    'random.categorical(random.key(7), jnp.arange(12.).reshape(3, 4), axis=0)',
    'random.categorical(random.key(7), jnp.zeros((3, 4)), shape=(2, 3))',
    'random.categorical(random.key(7), jnp.zeros((3, 4)), shape=(2, 3), replace=False)',
    'random.gumbel(random.key(8), (5,))',
    'random.gumbel(random.key(8), (5,), mode="high")',
    'random.exponential(random.key(9), (5,))',
    'random.truncated_normal(random.key(10), -1., 2., (5,))',
    'random.truncated_normal(random.key(10), -1, jnp.arange(3.))',
    'random.laplace(random.key(11), (5,))',
    'random.rademacher(random.key(12), (5,))',
    'random.rademacher(random.key(12), (5,), "int8")',
    'random.choice(random.key(13), 9, (5,))',
    'random.choice(random.key(13), 9, (5,), replace=False)',
    'random.choice(random.key(13), 5, (4,), p=jnp.array([.1, .2, .3, .3, .1]))',
    'random.choice(random.key(13), 5, (4,), replace=False, p=jnp.array([.1, .2, .3, .3, .1]))',
    'random.choice(random.key(13), jnp.arange(12).reshape(4, 3), (2,), axis=1)',
    'random.choice(random.key(13), jnp.arange(12).reshape(4, 3), (2,), replace=False)',
    'random.uniform(random.fold_in(random.key(14), 3), (2,))',
    'random.uniform(random.split(random.key(14), 3)[1], (2,))',
    'random.uniform(random.PRNGKey(14), (2,))',
    'random.PRNGKey(14)',
    'random.key_data(random.split(random.key(14), (2, 2)))',
    'random.key_data(random.wrap_key_data(jnp.arange(6, dtype="uint32").reshape(3, 2)))',
    'jax.grad(lambda x: random.uniform(random.key(16), (3,), minval=x, maxval=2 * x).sum())(2.)',
    'jax.grad(lambda x: random.truncated_normal(random.key(16), x, 2 * x, (3,)).sum())(.5)',
    'random.logistic(random.key(40), (5,))',
    'random.cauchy(random.key(40), (5,))',
    'random.rayleigh(random.key(41), 2., (5,))',
    'random.weibull_min(random.key(41), 1., jnp.arange(1., 4.), (2, 3))',
    'random.pareto(random.key(42), jnp.arange(1., 4.))',
    'random.lognormal(random.key(42), .5, (5,))',
    'random.triangular(random.key(43), 0., 1., 3., (5,))',
    'random.geometric(random.key(43), .3, (5,))',
    'random.maxwell(random.key(44), (2, 3))',
    'random.double_sided_maxwell(random.key(44), 1., 2., (5,))',
    'random.multivariate_normal(random.key(45), jnp.arange(2.), jnp.array([[2., 1.], [1., 2.]]), (4,))',
    'random.orthogonal(random.key(45), 3)',
    'random.orthogonal(random.key(45), 2, (2,), m=3)',
]

BATCHED = [
    'jax.vmap(lambda key: random.uniform(key, (2,)))(random.split(random.key(15), 3))',
    'jax.vmap(lambda n: random.key_data(random.fold_in(random.key(15), n)))(jnp.arange(3))',
    'jax.vmap(lambda n: random.bits(random.key(n)))(jnp.arange(3))',
    'jax.vmap(lambda key: random.key_data(random.split(key, 2)))(random.split(random.key(15), 3))',
    'jax.vmap(lambda words: random.bits(words), in_axes=1)(jnp.arange(6, dtype="uint32").reshape(2, 3))',
]

WIDE_SAMPLES = [
    'random.uniform(random.key(0), (4,))',
    'random.normal(random.key(3), (4,))',
    'random.randint(random.key(4), (4,), -(2**40), 2**40)',
    'random.permutation(random.key(5), 6)',
    'random.bernoulli(random.key(6), shape=(8,))',
    'random.categorical(random.key(7), jnp.arange(12.).reshape(3, 4))',
    'random.bits(random.key(8), (3,))',
    'random.rademacher(random.key(12), (5,))',
    'random.PRNGKey(2**40 + 3)',
    'random.key_data(random.key(-1))',
]


def words(x64: bool) -> list[dict]:
    rows = []
    for seed in SEEDS + (LONG_SEEDS if x64 else []):
        key = random.key(seed)
        row = {'seed': seed, 'x64': x64, 'key': random.key_data(key).tolist(),
               'split': random.key_data(random.split(key, (2, 1))).tolist(),
               'fold_in': {str(n): random.key_data(random.fold_in(key, n)).tolist() for n in (0, 5, 2**32 - 1)},
               'bits': {str(width): random.bits(key, (2, 3), f'uint{width}').tolist()
                        for width in (8, 16, 32, 64)[: 4 if x64 else 3]}}
        rows.append(row)
    return rows


def samples(texts: list[str], x64: bool) -> list[dict]:
    rows = []
    for text in texts:
        value = eval(text, {'random': random, 'jnp': jnp, 'jax': jax})
        plain = np.asarray(value.astype({'c': 'complex128', 'i': 'int64', 'u': 'uint64', 'b': 'bool'}.get(
            value.dtype.kind, 'float64'))).ravel()
        numbers = [[z.real, z.imag] for z in plain.tolist()] if plain.dtype.kind == 'c' else plain.tolist()
        rows.append({'call': text, 'x64': x64, 'dtype': value.dtype.name, 'shape': value.shape, 'values': numbers})
    return rows


def main() -> None:
    tables = {'made_by': f'jax {jax.__version__}', 'words': [], 'samples': [], 'batched': samples(BATCHED, False)}
    for x64 in (False, True):
        jax.config.update('jax_enable_x64', x64)
        tables['words'] += words(x64)
        tables['samples'] += samples(WIDE_SAMPLES if x64 else SAMPLES, x64)
    rows = ',\n'.join(f'"{name}": [\n' + ',\n'.join(map(json.dumps, table)) + '\n]' if isinstance(table, list)
                      else f'"{name}": {json.dumps(table)}' for name, table in tables.items())
    print('{\n' + rows + '\n}')


if __name__ == '__main__':
    main()
