"""Which package of Python's library is a piece of source from? A bag of words, its table split over the ranks by words.

    mpirun -n 2 python examples/embedding.py

No rank has the table, and none ever gathers it, nor its gradient. A rank looks up the words that it has and adds up those of a
piece of text; one all-reduce then adds what the ranks found: the sums, far less than the words. Backward the gradient of a
sum is the same on all ranks, and each adds it to its own rows.
"""

import re
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import numpy as np
from common import Parser, expect, say, sends

import distad as jax
import distad.numpy as jnp
from distad.debug import count_collectives

P = jax.P
PACKAGES = ('asyncio', 'email', 'multiprocessing', 'unittest')
WORDS, WIDTH, LENGTH, BATCH = 3072, 16, 48, 64


def pieces():
    """Words of Python's library in pieces of equal length, with the number of their package, in an order by chance."""
    texts, labels = [], []
    for label, package in enumerate(PACKAGES):
        for path in sorted(Path(sysconfig.get_paths()['stdlib'], package).glob('*.py')):
            words = re.findall(r'[A-Za-z_]{2,}', path.read_text(encoding='utf-8', errors='replace').lower())
            rest = [words[i:i + LENGTH] for i in range(0, len(words) - LENGTH, LENGTH)]
            texts.extend(rest)
            labels.extend([label] * len(rest))
    order = np.random.default_rng(0).permutation(len(texts))
    return [texts[i] for i in order], np.array(labels, np.int32)[order]


def scores(table, weights, ids):
    """table: [WORDS@X, d], weights: [d, 4], ids: [b, LENGTH] -> [b, 4]; an id of no word counts as zero"""
    found = table.at[ids].get(mode='fill', fill_value=0., out_sharding=P(unreduced={'X'}))       # [b, LENGTH, d], a summand
    bags = jax.reshard(jnp.sum(found, 1), P())                                                   # the all-reduce, of [b, d]
    return bags / LENGTH @ weights


def loss(params, ids, labels):
    s = scores(*params, ids)
    right = jnp.take_along_axis(s, labels[:, None], 1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(s, 1) - right)


@jax.jit
def step(params, ids, labels):
    """One step of gradient descent: the new parameters, the loss and the gradients."""
    value, grads = jax.value_and_grad(loss)(params, ids, labels)
    return jax.tree.map(lambda p, g: p - 8. * g, params, grads), value, grads


def reference(params, ids, labels):
    """The gradients by hand in NumPy, on one rank."""
    table, weights = params
    bags = np.where((ids < len(table))[..., None], table[np.minimum(ids, len(table) - 1)], 0).mean(1)
    e = np.exp(bags @ weights)
    ds = (e / e.sum(1, keepdims=True) - np.eye(len(PACKAGES))[labels]) / len(ids)
    dtable = np.zeros((len(table) + 1, table.shape[1]))
    np.add.at(dtable, np.minimum(ids, len(table)), (ds @ weights.T / LENGTH)[:, None])
    return dtable[:-1], bags.T @ ds


def main() -> None:
    parser = Parser(__doc__)
    parser.number('steps', 300, 'steps of gradient descent')
    options = parser.parse_args()
    ranks = jax.process_count()
    if WORDS % ranks:
        parser.error(f"the {WORDS} words of the table do not divide over {ranks} ranks")
    jax.set_mesh(jax.make_mesh((ranks,), ('X',)))

    texts, labels = pieces()
    test = len(texts) // 5
    frequent = [w for w, _ in Counter(w for text in texts[test:] for w in text).most_common(WORDS)]
    number = {w: i for i, w in enumerate(frequent)}
    ids = np.array([[number.get(w, WORDS) for w in text] for text in texts], np.int32)      # WORDS itself is beyond the table
    rng = np.random.default_rng(1)
    plain = (rng.normal(0, 1, (WORDS, WIDTH)).astype('float32'), rng.normal(0, 0.3, (WIDTH, len(PACKAGES))).astype('float32'))
    params = tuple(jax.device_put(p, s) for p, s in zip(plain, (P('X', None), P())))
    say(f"{len(texts)} pieces of {', '.join(PACKAGES)}; table {jax.typeof(params[0])}, {plain[0].nbytes / 1e3:.1f} kB")

    losses = []
    for i in range(options.steps):
        rows = test + rng.integers(0, len(texts) - test, BATCH)
        with count_collectives() as sent:
            params, value, grads = step(params, ids[rows], labels[rows])
        losses.append(float(value))
        if i == 0:
            say(f"a step sends {sends(sent)}")
            for name, got, want in zip(('table', 'weights'), grads, reference(plain, ids[rows], labels[rows])):
                expect(f"the gradient of the {name}", jax.process_allgather(got), want, 1e-4)
        if i % 50 == 0 or i == options.steps - 1:
            say(f"step {i:4}  loss {losses[-1]:.4f}")
    right = np.mean(np.argmax(np.asarray(jax.jit(scores)(*params, ids[:test])), 1) == labels[:test])
    usual = np.bincount(labels[:test]).max() / test
    say(f"right of {test} pieces it has not seen: {right:.1%}; the most frequent package is {usual:.1%} of them")
    if options.steps >= 100 and not right > (1 + usual) / 2:
        sys.exit('it has not learned' if jax.process_index() == 0 else 1)


if __name__ == '__main__':
    main()
