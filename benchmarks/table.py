"""The results as a page of tables and as a picture."""

import math
import platform
from xml.sax.saxutils import escape

TITLES = {
    'microbatch': 'A training step with microbatches', 'gpt': 'A training step of a small GPT',
    'stencil': 'Heat equation with halo exchange',
    'collectives': 'All-reduce', 'elementwise': 'Elementwise chains, one process', 'matmul': 'Matrix products, one process',
    'dispatch': 'What a call costs, one process', 'dispatch2': 'What a call costs, arrays split over two ranks',
    'compiling': 'Import, tracing and compiling'}
HEAD = '''# Benchmarks

Made by `make bench`; peers by `make bench-peers`. Two ranks (or as said) with one thread each, on {machine}.
"by hand" is a program in NumPy and mpi4py with derivatives written by hand and every buffer made once. JAX is one process with as many
devices as there are ranks, or two processes with its own collectives; PyTorch sums over gloo; autograd over mpi4py. distad and JAX run
the same text (`benchmarks/*/program.py`). The sides take turns; a figure is the median over rounds of the lower decile of the calls,
"x" its ratio to distad's (above 1: slower than distad), "CPU" the processor time of the first process, MiB its peak memory.

![Times over distad's](benchmarks.svg)
'''


def page(results: dict) -> str:
    parts = [HEAD.format(machine=machine())]
    for workload, cases in results.items():
        parts.append(f'\n## {TITLES[workload]}\n\n| case | side | time | x | CPU | MiB |\n|---|---|---|---|---|---|\n')
        for case, sides in cases.items():
            for side, r in sides.items():
                ratio = '' if side == 'distad' or r['ratio'] is None else f"{r['ratio']:.2f}"
                differs = '' if r['agrees'] else ' (another result)'
                cpu = '' if r['cpu'] is None else time(r['cpu'])
                parts.append(f"| {case} | {side}{differs} | {time(r['seconds'])} | {ratio} | {cpu} | {r['peak']:.0f} |\n")
    return ''.join(parts)


def time(seconds: float) -> str:
    for unit, size in (('s', 1.), ('ms', 1e-3), ('µs', 1e-6)):
        if seconds >= size:
            return f'{seconds / size:.3g} {unit}'
    return f'{seconds * 1e9:.0f} ns'


def machine() -> str:
    try:
        with open('/proc/cpuinfo') as file:
            lines = [line for line in file if line.startswith('model name')]
        return f"{len(lines)} cores of {lines[0].partition(':')[2].strip()}"
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


# ---- the picture: for each case, the sides' times over distad's on a logarithmic scale

COLOURS = {'by hand': '#444444', 'JAX': '#1f77b4', 'JAX, 2 processes': '#76b7e5', 'PyTorch': '#e4572e', 'autograd': '#6a9f58'}
ROW, LEFT, WIDTH, LOW, HIGH = 16, 330, 560, 1 / 8, 128


def picture(results: dict) -> str:
    rows, y = [], 50
    for workload, cases in results.items():
        rows.append(f'<text x="10" y="{y + 12}" font-weight="bold">{escape(TITLES[workload])}</text>')
        y += ROW + 4
        for case, sides in cases.items():
            marks = ''.join(mark(side, r['ratio'], y) for side, r in sides.items() if side in COLOURS and r['ratio'])
            rows.append(f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(case)}</text>'
                        f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y + 8}" y2="{y + 8}" stroke="#eeeeee"/>{marks}')
            y += ROW
        y += 6
    grid = ''.join(f'<line x1="{place(v):.0f}" x2="{place(v):.0f}" y1="44" y2="{y}" stroke="{"#000000" if v == 1 else "#dddddd"}"/>'
                   f'<text x="{place(v):.0f}" y="40" text-anchor="middle">{v:g}</text>'
                   for v in (.125, .25, .5, 1, 2, 4, 8, 16, 32, 64, 128))
    legend = ''.join(f'<circle cx="{LEFT + 110 * i}" cy="14" r="5" fill="{c}"/><text x="{LEFT + 110 * i + 9}" y="18">{escape(s)}</text>'
                     for i, (s, c) in enumerate(COLOURS.items()))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{y + 10}" '
            'font-family="sans-serif" font-size="11">\n'
            f'<rect width="100%" height="100%" fill="#ffffff"/>\n<text x="10" y="18">time over distad\'s</text>{legend}\n{grid}\n'
            + '\n'.join(rows) + '\n</svg>\n')


def mark(side: str, ratio: float, y: int) -> str:
    return f'<circle cx="{place(ratio):.1f}" cy="{y + 8}" r="5" fill="{COLOURS[side]}" fill-opacity="0.85"/>'


def place(ratio: float) -> float:
    inside = min(max(ratio, LOW), HIGH)
    return LEFT + WIDTH * math.log(inside / LOW) / math.log(HIGH / LOW)
