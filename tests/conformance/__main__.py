"""Check groups of recorded cases and print a table: `mpirun -n 4 python -m tests.conformance dot einsum`.

    python -m tests.conformance                        all cases that the tests run
    python -m tests.conformance dot --id 'dot-1*'      some cases, by id
    python -m tests.conformance reduce --expr 'jnp.mean' --verbose

Cases on meshes larger than the launch are left out.  A collective that hangs ends the run after DISTAD_TIMEOUT
seconds (10 unless set) with the stacks of the ranks: the id of the case stands there as the name of the file.
"""

from __future__ import annotations

import os

os.environ.setdefault('DISTAD_TIMEOUT', '10')  # read when the library starts: before it is imported

import argparse
import collections
import fnmatch
import re
import sys
import time

from tests.conformance import manual
from tests.conformance.cases import Case, explicit
from tests.conformance.harness import fits
from tests.conformance.judge import Verdict, check
from tests.conformance.ranks import is_first, watch, world_size
from tests.conformance.report import by_reason, causes, describe
from tests.conformance.selection import selected

Checked = list[tuple[Case, Verdict]]


def main() -> int:
    options = _options()
    watch()
    if options.manual:
        return _manual(options)
    groups = collections.Counter(case['group'] for case in explicit())
    unknown = [name for name in options.groups if name not in groups]
    if unknown:
        _print(f"no group {', '.join(unknown)}; there are: {', '.join(f'{g} ({n})' for g, n in groups.items())}")
        return 2
    cases = [case for case in explicit() if _wanted(case, options)]
    _print(f'{len(cases)} cases on {world_size()} ranks\n')
    _print(f"{'group':16}{'passed':>8}{'reason':>8}{'failed':>8}{'larger':>8}{'seconds':>9}")
    checked: dict[str, Checked] = {}
    for group in dict.fromkeys(case['group'] for case in cases):
        checked[group] = _run_group(group, [case for case in cases if case['group'] == group], options.jit)
    for group, verdicts in checked.items():
        _failures(group, [(case, verdict) for case, verdict in verdicts if verdict.status == 'failed'], options)
    verdicts = [verdict for group in checked.values() for _, verdict in group]
    _print('\n'.join(['\nmost frequent:', *causes(verdicts, 15)]))
    if options.verbose:
        _print('\n'.join(by_reason(verdicts)))
    return int(any(verdict.status == 'failed' for verdict in verdicts))


def _manual(options: argparse.Namespace) -> int:
    cases = [case for case in manual.cases() if fits(case) and manual.selected(case)
             and (not options.groups or case['group'] in options.groups) and fnmatch.fnmatch(case['id'], options.id or '*')
             and re.search(options.expr or '', case['program'])]
    _print(f"{len(cases)} cases on {world_size()} ranks\n")
    failed = []
    for group in dict.fromkeys(case['group'] for case in cases):
        verdicts = [(case, manual.check(case)) for case in cases if case['group'] == group]
        count = collections.Counter(verdict.status for _, verdict in verdicts)
        _print(f"{group:16}{count['passed']:8}{count['reason']:8}{count['failed']:8}")
        failed += [(case, verdict) for case, verdict in verdicts if verdict.status == 'failed']
    for case, verdict in failed[:options.n or None]:
        _print(f"\n{case['id']}: {verdict.problems if options.verbose else verdict.problems[0][:400]}")
        if options.verbose:
            _print(case['program'])
    _print('\n'.join(['\nmost frequent:', *causes([v for _, v in failed], 15)]))
    return int(bool(failed))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python -m tests.conformance', description=__doc__.split('\n')[0])
    parser.add_argument('groups', nargs='*', metavar='GROUP')
    parser.add_argument('--manual', action='store_true', help='the groups of manual mode')
    parser.add_argument('--id', help="only ids that match this shell pattern, e.g. 'dot-01*'")
    parser.add_argument('--expr', help='only cases in whose text this regular expression is found')
    parser.add_argument('--jit', choices=('none', 'some', 'all'), default='some',
                        help='run under jit too: no case, one in four (default), or all')
    parser.add_argument('--n', type=int, default=20, help='at most so many failures of each group (default 20; 0: all)')
    parser.add_argument('--verbose', action='store_true', help='all problems of a case, and what rests on which reason')
    return parser.parse_args()


def _wanted(case: Case, options: argparse.Namespace) -> bool:
    if options.groups:
        chosen = case['group'] in options.groups
    else:
        chosen = bool(options.id or options.expr) or selected(case)
    return (chosen and fnmatch.fnmatch(case['id'], options.id or '*')
            and re.search(options.expr or '', case.get('expr') or case['source']) is not None)


def _run_group(group: str, cases: list[Case], jit: str) -> Checked:
    start = time.perf_counter()
    done = [(case, check(case, jit)) for case in cases if fits(case)]
    count = collections.Counter(verdict.status for _, verdict in done)
    _print(f"{group:16}{count['passed']:8}{count['reason']:8}{count['failed']:8}{len(cases) - len(done):8}"
           f'{time.perf_counter() - start:9.1f}')
    return done


def _failures(group: str, failed: Checked, options: argparse.Namespace) -> None:
    if not failed:
        return
    _print(f'\n{group}: {len(failed)} failed')
    shown = failed[: options.n or None]
    _print('\n'.join(describe(case, verdict, options.verbose) for case, verdict in shown))
    if len(shown) < len(failed):
        _print(f'  and {len(failed) - len(shown)} more (--n 0 shows all)')


def _print(line: str) -> None:
    if is_first():
        print(line, flush=True)


if __name__ == '__main__':
    sys.exit(main())
