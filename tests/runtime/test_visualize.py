"""Pictures of shardings: functions of types, so meshes of any size can be looked at from one rank."""

import numpy as np
import pytest

import distad as jax
from distad.types.array_type import ArrayType
from distad.types.asked import named, wanted
from distad.types.mesh import Device, Mesh, set_mesh
from distad.visualize import as_html, as_text, picture

P = jax.P
pytestmark = pytest.mark.ranks(1)
MESH = Mesh(np.array([Device(id=r, process_index=r) for r in range(6)], dtype=object).reshape(2, 3), ('X', 'Y'))


def shown(shape, spec):
    with set_mesh(MESH):
        return picture(wanted(ArrayType(shape, 'float32'), named(spec)), MESH)


@pytest.mark.parametrize('shape, spec, cells', [
    ((4, 6), P('X', 'Y'), [['rank 0', 'rank 1', 'rank 2'], ['rank 3', 'rank 4', 'rank 5']]),
    ((3, 4), P('Y', 'X'), [['rank 0', 'rank 3'], ['rank 1', 'rank 4'], ['rank 2', 'rank 5']]),
    ((4, 6), P('X'), [['ranks 0, 1, 2'], ['ranks 3, 4, 5']]),
    ((4, 6), P(None, 'X'), [['ranks 0, 1, 2', 'ranks 3, 4, 5']]),
    ((6,), P(('Y', 'X')), [['rank 0', 'rank 3', 'rank 1', 'rank 4', 'rank 2', 'rank 5']]),
    ((2, 4, 3), P(None, 'X', 'Y'), [['rank 0', 'rank 1', 'rank 2'], ['rank 3', 'rank 4', 'rank 5']]),
    ((), P(), [['ranks 0, 1, 2, 3, 4, 5']]),
    ((3,), P('Y', unreduced={'X'}), [['ranks 0 + 3', 'ranks 1 + 4', 'ranks 2 + 5']]),
    ((3,), P(unreduced={'X'}), [['ranks (0, 1, 2) + (3, 4, 5)']]),
])
def test_who_holds_which_block(shape, spec, cells):
    assert shown(shape, spec) == cells


def test_text_and_html():
    cells = [['rank 0', 'rank 1'], ['rank 2', 'rank 0']]
    plain = as_text(cells, 'a title', color=False, max_width=21)
    assert plain == 'a title\n+---------+---------+\n' + '+---------+---------+\n'.join(
        ['|  rank 0 |  rank 1 |\n', '|  rank 2 |  rank 0 |\n', ''])
    colored = as_text(cells, 'a title', color=True)
    colors = [part.split('m')[0] for part in colored.split('\033[48;5;')[1:]]
    assert colors[0] == colors[3] and len(set(colors)) == 3
    assert len(as_text(cells, '', color=False, scale=3).splitlines()) == 1 + 3 + 2 * 3
    assert '<caption>&lt;t&gt;</caption>' in as_html(cells, '<t>') and as_html(cells, '').count('<td') == 4


@pytest.mark.meshes((1,))
def test_arrays_and_shapes(mesh, capsys):
    jax.debug.visualize_array_sharding(jax.device_put(np.ones(2), P('X')))
    assert '|   rank 0   |' in capsys.readouterr().out
    jax.debug.visualize_sharding((2, 2), P('X'))
    assert capsys.readouterr().out.startswith('float32[2@X,2] on ')
    with pytest.raises(ValueError, match='lies on no mesh'):
        jax.debug.visualize_array_sharding(np.ones(2))
