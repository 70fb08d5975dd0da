"""pytest under mpirun: every rank runs the same tests in the same order, and a test has one outcome for all ranks."""

import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextvars import copy_context
from typing import Any

import numpy as np
import pytest
from _pytest.runner import runtestprotocol
from _pytest.terminal import TerminalReporter

from distad.runtime import mpi
from distad.runtime.world import names
from distad.testing.agreement import EndedInVainError, Ranks, WaitedInVainError, all_ranks
from distad.testing.watchdog import Watchdog
from distad.types.mesh import Device, Mesh, set_mesh

MARKERS = (
    'meshes(*shapes): run the test once for each of these mesh shapes, in runs of as many ranks; the fixture `mesh` '
    'is the mesh, which is also the current one',
    'partial: run the test also in larger runs, where some ranks are outside its mesh',
    'ranks(*sizes): run the test in runs of these sizes',
    'timeout(seconds): give the test this time instead of distad_timeout',
)
ANY = range(1, 1 << 30)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini('distad_timeout', 'seconds that a test may take', default='60')
    parser.addini('distad_ranks', 'sizes of the runs to which tests without a mesh belong (default: all)', type='args')


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    if mpi.rank():
        config.option.xmlpath = None  # rank 0 writes the report file


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line('markers', marker)
    config.pluginmanager.register(Harness(config, all_ranks()), 'distad-harness')


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker('meshes')
    if mark is not None and 'mesh' in metafunc.fixturenames:
        metafunc.parametrize('mesh', mark.args, indirect=True, ids=lambda shape: 'x'.join(map(str, shape)))


@pytest.fixture
def mesh(request: pytest.FixtureRequest) -> Iterator[Mesh]:
    """The mesh of the mark `meshes`: the first ranks, axes X, Y, Z. It is the current mesh during the test."""
    shape = getattr(request, 'param', None)
    if shape is None:
        pytest.fail('the fixture `mesh` needs to know a shape: @pytest.mark.meshes((2,), (2, 2))')
    devices = [Device(id=r, process_index=r) for r in range(math.prod(shape))]
    mesh = Mesh(np.array(devices, dtype=object).reshape(shape), ('X', 'Y', 'Z')[:len(shape)])
    with set_mesh(mesh):
        yield mesh


class Harness:
    """The hooks for which the ranks come to an agreement."""

    def __init__(self, config: pytest.Config, ranks: Ranks) -> None:
        self.config = config
        self.ranks = ranks
        self.watchdog = Watchdog(ranks)
        self.elsewhere: Counter[int] = Counter()  # tests that belong to runs of another size
        self.uncollected: dict[str, str] = {}
        self.watchdog.start()
        mpi.watch(ranks.check)
        quiet(config, ranks.rank)

    def pytest_report_header(self) -> str:
        return f'ranks: {self.ranks.size}, time-out for each test: {self.config.getini("distad_timeout")} s'

    # -- Which tests run: those that belong to runs of this size, and the same on all ranks.

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.elsewhere.update(sizes(item)[0] for item in items if self.ranks.size not in sizes(item))
        items[:] = [item for item in items if self.ranks.size in sizes(item)]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.uncollected[report.nodeid] = report.longreprtext

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        mine = [item.nodeid for item in session.items]
        everyone = self.ranks.agree('collection', (mine, self.uncollected))
        for r, (tests, uncollected) in enumerate(everyone):
            if uncollected.keys() != everyone[0][1].keys():
                pytest.exit(f'rank 0 and rank {r} could not both collect all files:\n'
                            + '\n'.join((everyone[0][1] | uncollected).values()), 4)
            if tests != everyone[0][0]:
                odd = sorted(set(tests) ^ set(everyone[0][0]))
                pytest.exit(f'rank {r} collected other tests than rank 0: {odd[:5] or "the same in another order"}', 4)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if self.elsewhere:
            terminalreporter.write_line('tests that belong to other runs: ' + ', '.join(
                f'{count} to mpirun -n {size}' for size, count in sorted(self.elsewhere.items())))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.elsewhere:
            session.exitstatus = pytest.ExitCode.OK

    # -- Running one.

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        mark = item.get_closest_marker('timeout')
        with self.watchdog.watching(item.nodeid, float(mark.args[0] if mark else self.config.getini('distad_timeout'))):
            # In a context of its own, a test leaves no mesh or trace behind.
            reports = copy_context().run(runtestprotocol, item, log=False, nextitem=nextitem)
            reports = self._agreed(item.nodeid, reports)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        self.ranks.ending = True
        try:
            return (yield)
        finally:
            self.ranks.ending = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo) -> Iterator[None]:
        waited = call.excinfo is not None and call.excinfo.errisinstance((WaitedInVainError, EndedInVainError))
        if call.excinfo is not None and not waited:
            self.ranks.alarm()
        report = yield
        report.waited = waited
        return report

    def _agreed(self, nodeid: str, reports: Sequence[pytest.TestReport]) -> list[pytest.TestReport]:
        """The reports of all ranks made into those of one test."""
        hook = self.config.hook
        everyone = self.ranks.agree(nodeid, ([(report.when, report.outcome) for report in reports], [
            hook.pytest_report_to_serializable(config=self.config, report=report)
            for report in reports if report.failed and self.ranks.size > 1]))
        if all(outcomes == everyone[0][0] for outcomes, _ in everyone) and not everyone[0][1]:
            return list(reports)
        phases = {report.when: report for report in reports}
        failures: dict[str, dict[int, pytest.TestReport]] = {}
        for r, (_, failed) in enumerate(everyone):
            for data in failed:
                report = hook.pytest_report_from_serializable(config=self.config, data=data)
                failures.setdefault(report.when, {})[r] = report
        for when, by_rank in failures.items():
            phases[when] = merged(by_rank, self.ranks.size)
        if not failures:
            main = phases.get('call', reports[0])
            main.outcome = 'failed'
            main.longrepr = 'the ranks disagree: ' + '; '.join(
                f'rank {r}: {", ".join(f"{when} {outcome}" for when, outcome in outcomes)}'
                for r, (outcomes, _) in enumerate(everyone))
        if 'setup' in failures:
            phases.pop('call', None)
        return list(phases.values())

    def pytest_internalerror(self, excrepr: Any) -> None:
        if self.ranks.size > 1:
            self.ranks.abort(f'rank {self.ranks.rank}: {excrepr}', 3)


def sizes(item: pytest.Item) -> Sequence[int]:
    """The sizes of the runs a test belongs to."""
    shape = item.callspec.params.get('mesh') if hasattr(item, 'callspec') else None
    if shape is not None:
        size = math.prod(shape)
        return range(size, ANY.stop) if item.get_closest_marker('partial') else (size,)
    if mark := item.get_closest_marker('ranks'):
        return mark.args
    if mark := item.get_closest_marker('mpi'):  # of pytest-mpi
        return range(mark.kwargs.get('min_size') or 1, ANY.stop)
    return tuple(map(int, item.config.getini('distad_ranks'))) or ANY


def merged(by_rank: dict[int, pytest.TestReport], size: int) -> pytest.TestReport:
    """One report for what failed on several ranks in a phase: each different error once, then who waited in vain."""
    raised = [r for r, report in by_rank.items() if not report.waited]
    waited = [r for r in by_rank if r not in raised]
    groups: dict[str, list[int]] = {}
    for r in raised or waited:
        groups.setdefault(summary(by_rank[r]), []).append(r)
    first, *more = groups.values()
    sections = [(f'raised on {names(first)} of {size}', '')]
    sections += [(f'raised on {names(group)} of {size}', by_rank[group[0]].longreprtext) for group in more]
    if raised and waited:
        sections.append(('waiting', '\n'.join(f'rank {r}: {summary(by_rank[r])}' for r in waited)))
    for r in (group[0] for group in (first, *more)):
        sections += [(f'{title} on rank {r}', text) for title, text in by_rank[r].sections]
    head = by_rank[first[0]]
    head.sections = sections
    if crash := getattr(head.longrepr, 'reprcrash', None):
        crash.message = f'[{names(first)} of {size}] {crash.message}'
    return head


def summary(report: pytest.TestReport) -> str:
    """The error in a line, after the place in the test where it came up."""
    crash = getattr(report.longrepr, 'reprcrash', None)
    if crash is None:
        return report.longreprtext
    place = report.longrepr.reprtraceback.reprentries[0].reprfileloc or crash
    return f'{place.path}:{place.lineno}: {crash.message}'


def quiet(config: pytest.Config, rank: int) -> None:
    """Leaves the terminal and the cache to rank 0, and pytest-mpi's page about the MPI library to nobody."""
    plugins = config.pluginmanager
    for plugin in plugins.get_plugins():
        if type(plugin).__name__ == 'MPIPlugin':
            plugin._is_testing_mpi = False
    if rank:
        if plugins.has_plugin('terminalreporter'):
            plugins.unregister(name='terminalreporter')
            plugins.register(TerminalReporter(config, open(os.devnull, 'w')), 'terminalreporter')
        if hasattr(config, 'cache'):
            config.cache.set = lambda key, value: None
