"""All benchmarks: each side of a workload in turn, again and again (A B A B), then docs/benchmarks.md and its picture.

    make bench                                  everything, three rounds
    make bench ARGS='stencil gpt --rounds 5'    some of it
    make bench-peers                            environments for the peers, which are left out where they are missing

Two ranks, one thread a rank. A figure is the median over the rounds of the lower decile of a round's calls; a ratio is the
median of the ratios within a round. Sides have to agree in what they compute.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import table

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
PEERS = Path(os.environ.get('PEERS', HERE / '.peers'))
PYTHON = {name: Path(os.environ.get(f'PEER_{name.upper()}', PEERS / name)) / 'bin' / 'python' for name in ('jax', 'torch', 'autograd')}
WORKLOADS = {'microbatch': 2, 'gpt': 2, 'stencil': 2, 'collectives': 2, 'elementwise': 1, 'matmul': 1, 'dispatch': 1, 'dispatch2': 2,
             'compiling': 1}
ONE_THREAD = dict.fromkeys(('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS'), '1')
AGREE = 2e-3


def commands(workload: str, ranks: int) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Command line and variables of each side that can run here."""
    folder = HERE / workload.rstrip('2')
    spawned = [sys.executable, str(HERE / 'spawn.py'), str(ranks)]
    launched = [str(BIN / 'mpirun'), '-n', str(ranks)] if ranks > 1 else []
    alone = {'XLA_FLAGS': '--xla_cpu_multi_thread_eigen=false'} if ranks == 1 else {}
    sides = {
        'distad': (launched + [sys.executable, 'program.py'], {'SIDE': 'distad'}),
        'by hand': (launched + [sys.executable, 'by_hand.py'], {}),
        'JAX': ([str(PYTHON['jax']), 'program.py'], {'SIDE': 'jax1', 'DEVICES': str(ranks)} | alone),
        'JAX, 2 processes': (spawned + [str(PYTHON['jax']), 'program.py'], {'SIDE': 'jax2'}),
        'PyTorch': (spawned + [str(PYTHON['torch']), 'with_torch.py'], {}),
        'autograd': ([str(PYTHON['autograd'].parent / 'mpirun'), '-n', str(ranks), str(PYTHON['autograd']), 'with_autograd.py'], {})}
    if ranks == 1:
        del sides['JAX, 2 processes']
    if workload == 'dispatch2':
        sides = {name: sides[name] for name in ('distad', 'JAX')}
    return {name: side for name, side in sides.items()
            if (folder / side[0][-1]).exists() and all(Path(word).exists() for word in side[0] if word.startswith('/'))}


def run(workload: str, command: list[str], variables: dict[str, str], limit: float) -> list[dict]:
    """The results of one side, once."""
    ours = ('OPENBLAS_CORETYPE', 'OPENBLAS_L2_SIZE', 'PYTHONDONTWRITEBYTECODE')
    environ = {k: v for k, v in os.environ.items() if k not in ours and 'proxy' not in k.lower()}
    environ |= ONE_THREAD | variables | {'PYTHONPATH': os.pathsep.join([str(HERE), *filter(None, [os.environ.get('PYTHONPATH')])])}
    if 'distad' not in variables.values() and 'by_hand.py' not in command:
        environ['PYTHONPATH'] = str(HERE)
    try:
        done = subprocess.run(command, cwd=HERE / workload.rstrip('2'), env=environ, capture_output=True, text=True, timeout=limit,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        print(f'    not done after {limit:g} s', flush=True)
        return []
    if done.returncode:
        print(f'    ended with {done.returncode}: {done.stderr.strip()[-600:]}', flush=True)
    return [json.loads(line.removeprefix('RESULT ')) for line in done.stdout.splitlines() if line.startswith('RESULT ')]


def lower_decile(walls: list[float]) -> float:
    return sorted(walls)[len(walls) // 10]


def measure(workload: str, rounds: int, limit: float, chosen: list[str]) -> dict[str, dict[str, dict]]:
    """case -> side -> seconds, CPU seconds, ratio to the first side, peak memory, checksum."""
    found: dict[str, dict[str, list[dict]]] = {}
    for turn in range(rounds):
        for side, (command, variables) in commands(workload, WORKLOADS[workload]).items():
            if chosen and side not in chosen:
                continue
            print(f'{workload}, round {turn + 1} of {rounds}: {side}', flush=True)
            for result in run(workload, command, variables, limit):
                found.setdefault(result['case'], {}).setdefault(side, []).append(result)
    return {case: {side: summary(results, sides.get('distad', [])) for side, results in sides.items()} for case, sides in found.items()}


def summary(results: list[dict], ours: list[dict]) -> dict:
    """One side of one case. `ratio`: its time over distad's."""
    times = [lower_decile(r['walls']) for r in results]
    ratios = [t / lower_decile(o['walls']) for t, o in zip(times, ours)]
    cpus = [r['cpu'] for r in results if r['cpu'] is not None]
    check, ours_check = results[0]['checksum'], ours[0]['checksum'] if ours else None
    agrees = check is None or ours_check is None or abs(check - ours_check) <= AGREE * abs(ours_check)
    return {'seconds': statistics.median(times), 'cpu': statistics.median(cpus) if cpus else None,
            'ratio': statistics.median(ratios) if ratios else None, 'peak': max(r['peak'] for r in results), 'agrees': agrees}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('workloads', nargs='*', metavar='workload', help=f'of {", ".join(WORKLOADS)}; all by default')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--sides', nargs='+', default=[], help="some of: distad 'by hand' JAX 'JAX, 2 processes' PyTorch autograd")
    parser.add_argument('--limit', type=float, default=300, help='seconds that one side may take')
    parser.add_argument('--out', type=Path, default=HERE.parent / 'docs')
    args = parser.parse_args()
    kept = args.out / 'benchmarks.json'
    results = json.loads(kept.read_text()) if kept.exists() else {}
    for workload in args.workloads or WORKLOADS:
        results[workload] = measure(workload, args.rounds, args.limit, args.sides)
        args.out.mkdir(exist_ok=True)
        kept.write_text(json.dumps(results, indent=1))
        (args.out / 'benchmarks.md').write_text(table.page(results))
        (args.out / 'benchmarks.svg').write_text(table.picture(results))
    print(f'written: {args.out / "benchmarks.md"}, {args.out / "benchmarks.svg"}')


if __name__ == '__main__':
    main()
