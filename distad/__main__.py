"""`python -m distad`: what is done with a program's files rather than in it.

    python -m distad trace merge DIR        the timelines of all ranks as one, and what collectives cost
"""

import argparse

from distad.profiler.merge import merge


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog='python -m distad', description='Distributed automatic differentiation on MPI.')
    commands = parser.add_subparsers(dest='command', required=True)
    trace = commands.add_parser('trace', help='timelines, as DISTAD_TRACE=DIR writes them').add_subparsers(dest='what', required=True)
    merging = trace.add_parser('merge', help='put the files of all ranks together: DIR/trace.json, and a table')
    merging.add_argument('folder', metavar='DIR')
    given = parser.parse_args(arguments)
    try:
        print(merge(given.folder))
    except (OSError, ValueError) as error:
        parser.exit(1, f'{error}\n')
    return 0


if __name__ == '__main__':
    raise SystemExit(main())
